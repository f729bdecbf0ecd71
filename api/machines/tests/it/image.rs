//! What a session finds in a box of the `core` image.

use crate::bench::{AGENT, Bench, USER};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_its_tools_and_settings() {
    let bench = Bench::container();
    let spec = bench.up("a", "w1").await;
    for works in [
        "cd /tmp && printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): pass\\n' > test_t.py && python3 -m unittest test_t",
        "printf 'all:\\n\\t@echo made\\n' > /tmp/Makefile && make -C /tmp | grep -qx made",
        "echo needle > /workspace/hay && rg --quiet needle /workspace",
        "cd /workspace && git init -q sub && cd sub && git commit -q --allow-empty -m one && git branch --show-current | grep -qx main",
        "curl --version && rsync --version && ssh -V && ps ax && ip link && less --version",
        "tmux new-session -d 'sleep 100' && tmux list-sessions && tmux kill-server",
        "python3 -c 'import pty; assert pty.spawn([\"true\"]) == 0'",
        "test \"$(LANG=C.UTF-8 python3 -c 'print(chr(0xe9))' | wc -c)\" = 3",
        "bash -lc 'test $http_proxy = http://127.0.0.1:3128'",
        "getent hosts \"$(hostname)\"",
        "test \"$(id -un)\" = user",
        "test ! -s /etc/resolv.conf && test ! -e /etc/apt/sources.list",
    ] {
        bench.run(&spec, USER, works).await;
    }
    assert_eq!(bench.run(&spec, AGENT, "id -un").await, "cbagent\n");
}
