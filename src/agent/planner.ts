import type { AgentSampling } from './shapes/agent-spec.ts';
import type { Route } from './shapes/common.ts';

/** What a model is asked in one turn. */
export interface PlannerRequest {
  readonly messages: readonly PlannerMessage[];
  readonly tools: readonly PlannerTool[];
  /** Default `auto`. */
  readonly toolChoice?: 'auto' | 'required' | { readonly name: string };
  /** JSON schema that the text of an answer without calls must fit, or just any JSON object. */
  readonly responseFormat?:
    | { readonly type: 'json' }
    | { readonly type: 'json_schema'; readonly schema: object };
  readonly sampling: AgentSampling;
  /** Tokens that this answer may have. */
  readonly maxTokens: number;
  /** W3C trace context of the turn, where it has one. */
  readonly traceparent?: string;
}

export type PlannerMessage =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string; readonly calls: readonly PlannerCall[] }
  | { readonly role: 'tool'; readonly callId: string; readonly name: string; readonly content: string };

export interface PlannerTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface PlannerCall {
  readonly id: string;
  readonly name: string;
  /** JSON; a model that no grammar binds may write anything. */
  readonly arguments: string;
}

export type PlannerEvent =
  | { readonly type: 'delta' | 'reasoning'; readonly text: string }
  /** Whole, when its arguments are. */
  | { readonly type: 'call'; readonly call: PlannerCall }
  | {
      readonly type: 'end';
      readonly finish: 'stop' | 'tool_calls' | 'length';
      /** Absent where the model did not say. */
      readonly usage?: { readonly promptTokens: number; readonly completionTokens: number };
    };

/** A model that answers turns. An error that it throws ends the turn; an `AgentError` says why. */
export interface Planner {
  readonly route: Route;
  /** Leaving the loop, or the signal, stops the model. */
  answer(request: PlannerRequest, signal: AbortSignal): AsyncIterable<PlannerEvent>;
}

/** Where agents get their models. */
export interface Planners {
  /**
   * @param model `resident`, or the id of a model of the gateway
   * @throws AgentError `unavailable` where there is none
   */
  find(model: string): Planner;
  /** For the identity card. */
  readonly disclosure: { readonly kind: string; readonly model: string | null; readonly disclosure: string };
}
