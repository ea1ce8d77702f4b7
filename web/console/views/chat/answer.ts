import type { components } from '../../../api/schema.d.ts';
import type { Answer, Conversation, Message, TurnPosition } from '../../../chat/tree.ts';

export type Usage = components['schemas']['Usage'];

export interface Alternative {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}
export interface Token extends Alternative {
  /** Text that this token completes; empty when it holds only part of a character. */
  readonly text: string;
  /** The most likely tokens at this position; the sampled one may be missing. */
  readonly top: readonly Alternative[];
  /** Arrival time in ms after the request was sent. */
  readonly arrivalMs: number;
}

/** Times in ms after the request was sent, measured by this page. */
export interface Timing {
  readonly headers?: number;
  /** Arrival times of stream chunks with text; a chunk has one or more tokens. */
  readonly chunkTimes: readonly number[];
  readonly end?: number;
}

/** A call that the model asks for; the host runs none of them. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, incomplete while it arrives. */
  readonly arguments: string;
}

/** What a tool returned to a call. */
export interface ToolResult {
  /** The id of the call. */
  readonly id: string;
  readonly name: string;
  readonly content: string;
}

export interface UserTurn extends Message {
  /** Results of the tool calls before, in place of a text. */
  readonly toolResults?: readonly ToolResult[];
}
/** Speed of a complete answer, measured by this page. */
export interface Speed {
  readonly firstTokenMs: number;
  readonly tokensPerSecond: number;
}
export interface AssistantTurn extends Answer {
  /** Reasoning text of the model, before the answer. */
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Tokens of `text` only; empty when probabilities were not requested. */
  readonly tokens: readonly Token[];
  readonly timing: Timing;
  /** Members of the request without its messages. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly usage?: Usage;
  readonly speed?: Speed;
  readonly model?: string;
  /** Request id of the host. */
  readonly requestId?: string;
  readonly error?: unknown;
}
export type Turn = UserTurn | AssistantTurn;
export type ChatConversation = Conversation<Turn>;

/** Chunks closer than this (ms) were read from the network together. */
const sameReadMs = 1;

/**
 * Tokens per second after the first chunk; undefined when the answer arrived in too few parts to measure.
 */
export function decodeSpeed(answer: AssistantTurn): number | undefined {
  const { chunkTimes } = answer.timing;
  const first = chunkTimes[0];
  const last = chunkTimes.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const reads = chunkTimes.filter((at, index) => at - (chunkTimes[index - 1] ?? -Infinity) > sameReadMs);
  if (reads.length < 4) return undefined;
  const after = chunkTimes.filter((at) => at - first > sameReadMs).length;
  // A chunk may hold several tokens.
  return (after * (tokenCount(answer) / chunkTimes.length) * 1000) / (last - first);
}

/** Tokens per second from the request to the last token, including the time to the first token. */
export function overallSpeed(answer: AssistantTurn): number | undefined {
  const last = answer.timing.chunkTimes.at(-1);
  return last === undefined || last === 0 ? undefined : (tokenCount(answer) * 1000) / last;
}

/** Undefined for an answer without any text. */
export function speedOf(answer: AssistantTurn): Speed | undefined {
  const firstTokenMs = answer.timing.chunkTimes[0];
  const tokensPerSecond = decodeSpeed(answer) ?? overallSpeed(answer);
  return firstTokenMs === undefined || tokensPerSecond === undefined
    ? undefined
    : { firstTokenMs, tokensPerSecond };
}

/** An answer before its first token. */
export const emptyAnswer = (position: TurnPosition, settings: AssistantTurn['settings']): AssistantTurn => ({
  ...position,
  settings,
  role: 'assistant',
  text: '',
  reasoning: '',
  toolCalls: [],
  tokens: [],
  timing: { chunkTimes: [] },
  state: 'waiting',
});

/** Number of tokens so far. Reasoning tokens have no probabilities, so they are counted by usage or chunks. */
function tokenCount({ reasoning, tokens, usage, timing }: AssistantTurn): number {
  const counted = reasoning === '' ? tokens.length : 0;
  return counted || (usage?.completion_tokens ?? timing.chunkTimes.length);
}

/** The probability of a token, 0 to 1. */
export const probability = ({ logprob }: { readonly logprob: number }): number => Math.exp(logprob);

export function formatProbability(probabilityValue: number): string {
  if (probabilityValue >= 0.9995) return 'over 99.9 %';
  const percent = probabilityValue * 100;
  if (percent < 0.01) return `${percent.toExponential(1)} %`;
  return `${percent.toFixed(percent < 1 ? 2 : 1)} %`;
}

/** Probability of a token in four steps. */
export type Confidence = 'sure' | 'likely' | 'unsure' | 'unlikely';
export function confidenceOf(share: number): Confidence {
  if (share >= 0.9) return 'sure';
  if (share >= 0.5) return 'likely';
  return share >= 0.1 ? 'unsure' : 'unlikely';
}

/** A token with visible white space. */
export const showWhitespace = (token: string): string =>
  token === '' ? '(empty)' : token.replaceAll(' ', '␣').replaceAll('\n', '↵').replaceAll('\t', '→');
