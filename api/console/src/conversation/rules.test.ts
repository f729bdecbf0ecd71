import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { Risk, RiskRuleSchema, Verdict } from "../protocol/cocoonbox/log/v1/agent_pb";
import { allowed } from "./rules";

const rule = (risk: Risk, verdict: Verdict) => create(RiskRuleSchema, { risk, verdict });

test("one risk is allowed and the others stay as they are", () => {
  const before = [rule(Risk.DESTRUCTIVE, Verdict.ASK), rule(Risk.MONEY, Verdict.DENY)];
  const plain = allowed(before, Risk.DESTRUCTIVE).map(({ risk, verdict }) => [risk, verdict]);
  expect(plain).toEqual([[Risk.MONEY, Verdict.DENY], [Risk.DESTRUCTIVE, Verdict.ALLOW]]);
  expect(allowed([], Risk.NETWORK_WRITE)).toHaveLength(1);
});
