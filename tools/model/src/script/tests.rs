use super::*;

fn refusal_of(text: &str) -> String {
    let error = Script::parse(text).expect_err("must be refused");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    format!("{error}\n{}", source.unwrap_or_default())
}

#[test]
fn the_demo_parses() {
    let demo = Script::demo();
    assert_eq!(demo.conversations.len(), 2);
    assert!(
        demo.conversations[0]
            .steps
            .iter()
            .any(|step| step.tools.len() > 1),
        "parallel calls"
    );
}

#[test]
fn arguments_keep_their_order_and_types() {
    let script = Script::parse(
        r#"
        [[conversation]]
        [[conversation.step]]
        [[conversation.step.tools]]
        name = "t"
        args.z = "1"
        args.a = { deep = [1, 2.5, true] }
        "#,
    )
    .unwrap();
    let args = script.conversations[0].steps[0].tools[0]
        .args
        .clone()
        .unwrap();
    assert_eq!(
        serde_json::to_string(&args).unwrap(),
        r#"{"z":"1","a":{"deep":[1,2.5,true]}}"#
    );
}

#[test]
fn a_misspelt_key_is_refused() {
    let text = "[[conversation]]\n[[conversation.step]]\ntxet = 'hi'";
    assert!(refusal_of(text).contains("unknown field `txet`"));
}

#[test]
fn rules_name_the_place() {
    let text = "[[conversation]]\n[[conversation.step]]\ntext = 'a'\nbranch = [{ text = 'b' }]";
    insta::assert_snapshot!(refusal_of(text), @"conversation 0 step 0 branch 0: a branch needs `when_last`");
    let text = "[[conversation]]\n[[conversation.step]]\ntext = 'a'\nwhen_last = 'b'";
    insta::assert_snapshot!(refusal_of(text), @"conversation 0 step 0: `when_last` belongs in a `branch`");
    let text = "[[conversation]]\n[[conversation.step]]\nfail = { status = 204 }";
    insta::assert_snapshot!(refusal_of(text), @"conversation 0 step 0: `fail.status` must be 200, or from 400 to 599");
    let text = "[[conversation]]\n[[conversation.step]]\ntext = 'a'\nrefusal = 'no'";
    insta::assert_snapshot!(refusal_of(text), @"conversation 0 step 0: a `refusal` stands alone");
    let text = "[[conversation]]\n[[conversation.step]]\ntools = [{ name = 't', args = {}, raw_args = '{}' }]";
    insta::assert_snapshot!(refusal_of(text), @"conversation 0 step 0: a tool has `args` or `raw_args`, not both");
}
