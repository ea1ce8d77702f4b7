import type { Caller } from '../access/types.ts';
import type { Candidate } from '../catalog/types.ts';
import { findAnswerTexts, replaceAnswerTexts } from '../hooks/answer-texts.ts';
import type { HookQuestion } from '../hooks/http-hook.ts';
import { findTexts, hasTokenIds, replaceTexts } from '../hooks/request-texts.ts';
import { findUnseenTexts } from '../hooks/unseen-texts.ts';
import { runHooks } from '../hooks/run-hooks.ts';
import type { Hook } from '../hooks/types.ts';
import { ClientGone } from '../../http/error.ts';
import type { Json } from '../../util/json.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import { unsupported } from '../../wires/core/error.ts';
import { parseExact } from '../../wires/core/json.ts';
import type { IncomingRequest } from './incoming-request.ts';
import type { JsonObjectBody } from './request-body.ts';
import type { GatewayServices } from './services.ts';

/** The hooks that check a request, also for the fallbacks that may serve it. */
export const hooksFor = (hooks: readonly Hook[], candidates: readonly Candidate[]): readonly Hook[] =>
  hooks.filter(({ models }) => !models || candidates.some(({ model }) => models.includes(model.id)));

interface CheckedRequest {
  readonly hooks: readonly Hook[];
  readonly caller: Caller;
  readonly wire: string;
  /** Catalog id. */
  readonly model: string;
  readonly stream: boolean;
  /** Whether every provider that may answer checks the signatures of reasoning in a request. */
  readonly isSigned?: boolean;
}

const questionOf = (
  { receipt }: IncomingRequest,
  { caller, wire, model, stream }: CheckedRequest,
): Omit<HookQuestion, 'texts'> => ({
  requestId: receipt.requestId,
  accountId: caller.accountId,
  keyId: caller.key.id,
  model,
  wire,
  stream,
});

/**
 * Asks the hooks about a request.
 * @returns the body to send instead; undefined where it stays
 * @throws WireError 400 when a hook blocks it or cannot read it, 503 when one fails
 */
export async function checkRequest(
  { observer, onFault }: GatewayServices,
  incoming: IncomingRequest,
  request: CheckedRequest,
  body: JsonObjectBody,
): Promise<JsonObjectBody | undefined> {
  const hooks = request.hooks.filter(({ stage }) => stage === 'before');
  if (hooks.length === 0) return undefined;
  const param = request.wire === 'embeddings' ? 'input' : 'prompt';
  if (hasTokenIds(body.value[param]))
    throw unsupported(
      param,
      `This gateway checks the texts of requests, so ${param} must be text, not token ids.`,
    );
  const { disconnectSignal } = incoming;
  const value = parseExact(body.text) as Json;
  const texts = findTexts(value, { isSigned: request.isSigned === true });
  const sentTexts = texts.map(({ path, role, text }) => ({
    path,
    ...(role === undefined ? {} : { role }),
    text,
  }));
  let replaced: ReadonlyMap<number, string>;
  try {
    const question = { ...questionOf(incoming, request), texts: sentTexts };
    ({ replaced } = await runHooks(hooks, question, { observer, onFault, signal: disconnectSignal }));
  } catch (error) {
    if (disconnectSignal.aborted) throw new ClientGone('before the provider was asked');
    throw error;
  }
  replaceTexts(texts, replaced);
  const text = JSON.stringify(value);
  // What the hooks saw is sent, and no more: of a member that is there twice, they saw the last one.
  if (text === body.text) return undefined;
  return { text, value: JSON.parse(text) as Json };
}

/** An answer after its hooks. */
export interface CheckedAnswer {
  /** The events to write instead; undefined where the answer stays. */
  readonly events: readonly AnswerEvent[] | undefined;
  /** A hook failed and let it pass. */
  readonly isUnchecked: boolean;
}

/** Asks hooks about a whole answer. Rejects with `WireError` when one blocks it or fails. */
export type AnswerCheck = (
  candidate: Candidate,
  answer: { readonly events: readonly AnswerEvent[]; readonly text: string },
) => Promise<CheckedAnswer>;

/** @returns undefined where no hook checks answers */
export function answerCheckFor(
  { observer, onFault }: GatewayServices,
  incoming: IncomingRequest,
  request: CheckedRequest,
): AnswerCheck | undefined {
  const hooks = request.hooks.filter(({ stage }) => stage === 'after');
  if (hooks.length === 0) return undefined;
  return async ({ model }, { events, text }) => {
    const seen = findAnswerTexts(events);
    // Where a hook replaces one of the others, the answer is written without it.
    const texts = [...seen, ...findUnseenTexts(text, request.stream, seen)];
    const question = { ...questionOf(incoming, { ...request, model: model.id }), texts };
    // The answer is paid for, so it is also checked after the caller disconnected.
    const { replaced, isUnchecked } = await runHooks(hooks, question, { observer, onFault });
    return { events: replaced.size > 0 ? replaceAnswerTexts(events, replaced) : undefined, isUnchecked };
  };
}

/** Identities of the hooks that a stored answer has passed. */
export const answerHookIds = (hooks: readonly Hook[]): string[] =>
  hooks
    .filter(({ stage }) => stage === 'after')
    .map((hook) => JSON.stringify([hook.name, hook.kind === 'http' ? hook.url : '']));
