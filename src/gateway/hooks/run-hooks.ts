import type { GatewayObserver } from '../../tracing/index.ts';
import { WireError } from '../../wires/core/error.ts';
import { askHook, HookFailure, type HookQuestion } from './http-hook.ts';
import { redactTexts } from './redact-hook.ts';
import type { Hook, HookText, HookVerdict } from './types.ts';

/** The texts after all hooks, by index; those that no hook replaced are absent. */
export interface CheckedTexts {
  readonly replaced: ReadonlyMap<number, string>;
  /** A hook failed, and is configured to let requests pass then. */
  readonly isUnchecked: boolean;
}

export interface HookContext {
  readonly observer: GatewayObserver;
  /** Called for each failure of a hook, with the request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
  /** Aborts the requests to hooks. */
  readonly signal?: AbortSignal;
}

/**
 * Asks hooks in their order; each sees what the ones before it replaced.
 * @throws WireError 400 `blocked_by_hook` when one blocks; 503 `hook_failed` when one fails that must not
 */
export async function runHooks(
  hooks: readonly Hook[],
  question: HookQuestion,
  context: HookContext,
): Promise<CheckedTexts> {
  const replaced = new Map<number, string>();
  let isUnchecked = false;
  let texts: readonly HookText[] = question.texts;
  for (const hook of hooks) {
    const verdict = await runHook(hook, { ...question, texts }, context);
    if (verdict === 'failed') isUnchecked = true;
    else if (verdict.action === 'block') throw blocked(hook, verdict.reason);
    else if (verdict.action === 'replace') {
      for (const [index, text] of verdict.texts) replaced.set(index, text);
      texts = question.texts.map((one, index) => ({ ...one, text: replaced.get(index) ?? one.text }));
    }
  }
  return { replaced, isUnchecked };
}

/** @returns `failed` where the request may pass without this hook */
async function runHook(
  hook: Hook,
  question: HookQuestion,
  { observer, onFault, signal }: HookContext,
): Promise<HookVerdict | 'failed'> {
  const startedAt = performance.now();
  const report = (outcome: 'allowed' | 'blocked' | 'replaced' | 'failed') =>
    observer.onHook?.({ hook: hook.name, stage: hook.stage, outcome, ms: performance.now() - startedAt });
  try {
    const verdict =
      hook.kind === 'redact' ? redactTexts(hook, question.texts) : await askHook(hook, question, signal);
    report(outcomes[verdict.action]);
    return verdict;
  } catch (error) {
    if (!(error instanceof HookFailure)) throw error;
    report('failed');
    // Without a stack: nothing is wrong here.
    onFault(question.requestId, `the hook '${hook.name}' failed: ${error.message}`);
    if (hook.kind === 'http' && hook.onFailure === 'allow') return 'failed';
    throw new WireError(
      503,
      'server_error',
      `The hook '${hook.name}' of this gateway, which must check ${subjects[hook.stage]}, failed; retry in a moment.`,
      { code: 'hook_failed', extraMembers: { hook: hook.name } },
    );
  }
}

const outcomes = { allow: 'allowed', block: 'blocked', replace: 'replaced' } as const;
const subjects = { before: 'requests', after: 'answers' } as const;

/** Length limit of a hook's reason. */
const maxReasonChars = 1000;

function blocked({ name, stage }: Hook, reason: string | undefined): WireError {
  const shown = reason?.trim().slice(0, maxReasonChars).toWellFormed();
  return new WireError(
    400,
    'invalid_request_error',
    `The hook '${name}' of this gateway blocked the ${stage === 'before' ? 'request' : 'answer'}${shown ? `: ${shown}` : '.'}`,
    { code: 'blocked_by_hook', extraMembers: { hook: name } },
  );
}
