//! MCP servers over https: a tunnel through the door, and the certificates that the box trusts.

use crate::{
    certificates::certificates,
    mcp::{configure, done, elsewhere, script},
    turns::results,
    world::World,
};

#[tokio::test]
async fn a_server_is_taken_for_who_its_certificate_says_and_nobody_else() {
    let calls = [
        ("mcp__far__echo", r#"{"text":"hi"}"#),
        ("mcp__near__echo", r#"{"text":"ho"}"#),
        ("mcp_servers", "{}"),
    ];
    let mut world = World::dark("anthropic", &script(&calls)).await;
    let folder = world.workspace();
    certificates(&folder, "DNS:*.secure.test,DNS:localhost");
    let (_server, port) = elsewhere(&folder, "https").await;
    let headers = serde_json::json!({ "X-Team": "t1" });
    configure(
        &world,
        &serde_json::json!({ "mcpServers": {
            "far": { "url": format!("https://port-{port}.secure.test/mcp"), "headers": headers },
            "near": { "url": format!("https://localhost:{port}/mcp"), "headers": headers },
            // The same server under a name that its certificate does not have.
            "mask": { "url": format!("https://port-{port}.other.test/mcp"), "headers": headers },
            // One that does not speak TLS at all.
            "bare": { "url": format!("https://{}/mcp", world.model.addr()), "headers": headers },
        } }),
    );
    world.start_toolhost();
    let authority = folder.join("authority.pem").display().to_string();
    world.start_serve(&[("SSL_CERT_FILE", authority)]).await;
    let results = results(&done(&world).await);
    assert_eq!(results[0].content, "you said hi");
    assert_eq!(results[1].content, "you said ho");
    let said = &results[2].content;
    for line in [
        "far: 12 tools",
        "near: 12 tools",
        "mask: 0 tools; does not work",
        "bare: 0 tools; does not work",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_talked_to() {
    let world = World::new("anthropic", &script(&[("mcp_servers", "{}")])).await;
    let folder = world.workspace();
    certificates(&folder, "DNS:*.secure.test");
    let (_server, port) = elsewhere(&folder, "https").await;
    let url = format!("https://port-{port}.secure.test/mcp");
    let headers = serde_json::json!({ "X-Team": "t1" });
    configure(
        &world,
        &serde_json::json!({ "mcpServers": { "far": { "url": url, "headers": headers } } }),
    );
    let said = &results(&done(&world).await)[0].content;
    assert!(said.contains("far: 0 tools; does not work"), "{said}");
}
