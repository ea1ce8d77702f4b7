export const hookStages = ['before', 'after'] as const;
export const failurePolicies = ['block', 'allow'] as const;

interface HookBase {
  /** Unique; callers see it in refusals. */
  readonly name: string;
  /** Ids of the models whose requests it checks; undefined: all. */
  readonly models: readonly string[] | undefined;
}

/** A check by an HTTP service of the operator. */
export interface HttpHook extends HookBase {
  readonly kind: 'http';
  /** Before the request is sent to a provider, or after the provider's whole answer arrived. */
  readonly stage: (typeof hookStages)[number];
  readonly url: string;
  /** Signs what is posted. */
  readonly key: Buffer;
  readonly timeoutMs: number;
  /** What becomes of a request when the hook gives no valid answer. */
  readonly onFailure: (typeof failurePolicies)[number];
}

/** Removes matches from the texts of a request before it is sent to a provider. */
export interface RedactHook extends HookBase {
  readonly kind: 'redact';
  readonly stage: 'before';
  /** As in a policy of the recorder: named sets, and RE2 expressions. */
  readonly expressions: readonly string[];
}

export type Hook = HttpHook | RedactHook;

/** A text of a request or an answer, as a hook sees it. */
export interface HookText {
  /** `user`, `assistant`, `system`, `tool`, `reasoning`, `tool_call`, ...; undefined where no message contains it. */
  readonly role?: string | undefined;
  /** Where it is in the body of a request, such as `messages.0.content`. */
  readonly path?: string;
  /** Index of the answer, where the request asked for several. */
  readonly choice?: number;
  /** Name of the called tool. */
  readonly name?: string;
  readonly text: string;
}

/** What a hook decided. The texts are replaced by their index in what was sent. */
export type HookVerdict =
  | { readonly action: 'allow' }
  | { readonly action: 'block'; readonly reason: string | undefined }
  | { readonly action: 'replace'; readonly texts: ReadonlyMap<number, string> };
