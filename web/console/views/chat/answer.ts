import type { components } from '../../api/schema.d.ts';

export type Usage = components['schemas']['Usage'];

export interface Alternative {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}
export interface Token extends Alternative {
  /** What of the answer's text it ends: empty where it holds a part of a character only. */
  readonly text: string;
  /** The likeliest at its place, it among them or not. */
  readonly top: readonly Alternative[];
  /** ms after the request was sent, when it came to this page. */
  readonly at: number;
}

/** Moments in ms after the request was sent, as this page saw them. */
export interface Timing {
  readonly headers?: number;
  /** One a piece of the stream that had text; a piece is a token, or several that came out at once. */
  readonly pieces: readonly number[];
  readonly end?: number;
}

export interface Question {
  readonly id: number;
  readonly role: 'user';
  readonly text: string;
}
export interface Answer {
  readonly id: number;
  readonly role: 'assistant';
  readonly text: string;
  /** What the model wrote before its answer, where it thinks. */
  readonly thought: string;
  /** Of `text` alone; empty where probabilities were not asked for. */
  readonly tokens: readonly Token[];
  readonly timing: Timing;
  readonly state: 'waiting' | 'writing' | 'done' | 'stopped' | 'failed';
  readonly finish?: string;
  readonly usage?: Usage;
  readonly model?: string;
  /** By which the host knows it, too. */
  readonly requestId?: string;
  readonly error?: unknown;
}
export type Turn = Question | Answer;

export const isAnswering = (turn: Turn | undefined): boolean =>
  turn?.role === 'assistant' && (turn.state === 'waiting' || turn.state === 'writing');

/** Pieces that came this soon after one another (ms) were read from the network at once. */
const together = 1;

/**
 * Tokens a second after the first ones came; undefined where the answer came in so few parts that their times tell
 * nothing.
 */
export function decodeSpeed(answer: Answer): number | undefined {
  const { pieces } = answer.timing;
  const first = pieces[0];
  const last = pieces.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const parts = pieces.filter((at, index) => at - (pieces[index - 1] ?? -Infinity) > together);
  if (parts.length < 4) return undefined;
  const after = pieces.filter((at) => at - first > together).length;
  // A piece may hold several tokens.
  return (after * (tokenCount(answer) / pieces.length) * 1000) / (last - first);
}

/** Tokens a second from the request to the last of them, the wait for the first one included. */
export function wholeSpeed(answer: Answer): number | undefined {
  const last = answer.timing.pieces.at(-1);
  return last === undefined || last === 0 ? undefined : (tokenCount(answer) * 1000) / last;
}

/** Of what has come so far. Those of thoughts have no probabilities here. */
function tokenCount({ thought, tokens, usage, timing }: Answer): number {
  const counted = thought === '' ? tokens.length : 0;
  return counted || (usage?.completion_tokens ?? timing.pieces.length);
}

/** The probability of a token, 0 to 1. */
export const probability = ({ logprob }: { readonly logprob: number }): number => Math.exp(logprob);

export function formatShare(share: number): string {
  if (share >= 0.9995) return 'over 99.9 %';
  const percent = share * 100;
  if (percent < 0.01) return `${percent.toExponential(1)} %`;
  return `${percent.toFixed(percent < 1 ? 2 : 1)} %`;
}

/** How sure the model was of it, in four steps. */
export type Sureness = 'sure' | 'likely' | 'unsure' | 'unlikely';
export function sureness(share: number): Sureness {
  if (share >= 0.9) return 'sure';
  if (share >= 0.5) return 'likely';
  return share >= 0.1 ? 'unsure' : 'unlikely';
}

/** White space that can be seen, and all else as it is. */
export const visibleToken = (token: string): string =>
  token === '' ? 'nothing' : token.replaceAll(' ', '␣').replaceAll('\n', '↵').replaceAll('\t', '→');
