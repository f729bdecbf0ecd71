/** Calls with one answer: gRPC-Web over fetch, to the host that the page is from. */

import { createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Agents } from "../protocol/cocoonbox/agent/v1/agents_pb";
import { Control } from "../protocol/cocoonbox/agent/v1/control_pb";
import { Boxes } from "../protocol/cocoonbox/control/v1/boxes_pb";
import { Budgets } from "../protocol/cocoonbox/control/v1/budgets_pb";
import { Capsule } from "../protocol/cocoonbox/control/v1/capsule_pb";
import { Checkpoints } from "../protocol/cocoonbox/control/v1/checkpoints_pb";
import { History } from "../protocol/cocoonbox/control/v1/history_pb";
import { Routines } from "../protocol/cocoonbox/control/v1/routines_pb";
import { Shares } from "../protocol/cocoonbox/control/v1/shares_pb";
import { Users } from "../protocol/cocoonbox/control/v1/users_pb";

const transport = createGrpcWebTransport({ baseUrl: location.origin });

export const agents = createClient(Agents, transport);
export const boxes = createClient(Boxes, transport);
export const budgets = createClient(Budgets, transport);
export const capsule = createClient(Capsule, transport);
export const checkpoints = createClient(Checkpoints, transport);
export const control = createClient(Control, transport);
export const history = createClient(History, transport);
export const routines = createClient(Routines, transport);
export const shares = createClient(Shares, transport);
export const users = createClient(Users, transport);

/** Names the box that a call is for. */
export function inBox(boxId: string): { headers: HeadersInit } {
  return { headers: { box_id: boxId } };
}
