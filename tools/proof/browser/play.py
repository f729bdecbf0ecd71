"""Has the agent of a box play every MiniWoB++ page, with policies for a model; the last line gives the figures.

usage: play.py PAGES [--seeds N] [--only TASK,…] [--json FILE]
"""

import argparse, json, pathlib, statistics, subprocess, sys

import policies

# Each agent has a window of its own, and a conversation that grows.
PAGES_OF_AN_AGENT = 12


def cocoonbox(*args):
    return subprocess.run(["cocoonbox", "--quiet", *args], capture_output=True, text=True)


def play(agent, task, seed):
    done = cocoonbox("send", "--agent", agent, f"play {task} {seed}")
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"task": task, "seed": seed, "reward": 0, "steps": 0, "ms": 0, "goal": "",
                "why": (done.stderr or done.stdout)[-300:].replace("\n", " ")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    tasks = sorted(one.stem for one in args.pages.glob("*.html"))
    tasks = [one for one in tasks if not args.only or one in args.only.split(",")]
    by_pixels = {task: why for why, names in policies.BY_PIXELS.items() for task in names.split()}
    unknown = [one for one in tasks if one not in by_pixels and policies.of(one) is None]
    assert not unknown, f"neither a policy nor a reason why there is none: {unknown}"
    played, agent = [], "main"
    for at, task in enumerate(one for one in tasks if one not in by_pixels):
        if at % PAGES_OF_AN_AGENT == 0:
            agent = f"player{at // PAGES_OF_AN_AGENT}"
            cocoonbox("agent", "create", agent, "--never-ask", "--steps-max", "1000")
        results = [play(agent, task, seed) for seed in range(1, args.seeds + 1)]
        played += results
        won = sum(one["reward"] > 0 for one in results)
        why = next((one["why"] for one in results if one["reward"] <= 0), "")
        print(f"{task:36} {won}/{len(results)}  {why[:150]}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(played, indent=1))
    won = [one for one in played if one["reward"] > 0]
    whole = {one["task"] for one in played} - {one["task"] for one in played if one["reward"] <= 0}
    steps = sum(one["steps"] for one in played)
    step = statistics.median(one["ms"] / (one["steps"] + 3) for one in won) if won else 0
    print(f"{len(tasks)} pages, {len(tasks) - len([one for one in tasks if one not in by_pixels])} of them by their "
          f"pixels only; by refs {len(whole)} of {len({one['task'] for one in played})} pages won with every seed, "
          f"{len(won)} of {len(played)} games; {steps} steps, {step:.0f} ms each (median)")
    return 0 if won else 1


if __name__ == "__main__":
    sys.exit(main())
