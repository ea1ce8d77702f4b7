import type { components, paths } from '../../web/api/schema.d.ts';

type Schemas = components['schemas'];
type JsonBody<Operation> = Operation extends { requestBody: { content: { 'application/json': infer Body } } }
  ? Body
  : never;

export type AgentEvent = Schemas['AgentEvent'];
export type AgentSpec = Schemas['AgentSpec'];
export type TaskRequest = JsonBody<paths['/agent/v1/tasks']['post']>;
export type MessageRequest = JsonBody<paths['/agent/v1/tasks/{id}/messages']['post']>;
export type TaskDetail = Schemas['TaskDetail'];
export type TaskRow = Schemas['TaskRow'];
export type TurnEvent = Schemas['TurnEvent'];
export type PendingChange = Schemas['PendingChange'];
export type PendingChangeDetail = Schemas['PendingChangeDetail'];

/** What is wrong with one member of a request. */
export interface Violation {
  /** Dotted path of the member. */
  readonly path: string;
  readonly message: string;
}
