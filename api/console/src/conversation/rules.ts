/** What an agent need not ask about any more. */

import { create } from "@bufbuild/protobuf";
import { type Risk, type RiskRule, RiskRuleSchema, Verdict } from "../protocol/cocoonbox/log/v1/agent_pb";

/** The rules with one more risk allowed, the others as they are. */
export function allowed(rules: readonly RiskRule[], risk: Risk): RiskRule[] {
  const others = rules.filter((rule) => rule.risk !== risk);
  return [...others, create(RiskRuleSchema, { risk, verdict: Verdict.ALLOW })];
}
