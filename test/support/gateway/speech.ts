import type { SseFrame } from '../../../src/wires/core/wire.ts';
import { frame } from './frames.ts';

/** A provider-neutral answer, which the fake provider sends on any wire; every member has a default. */
export interface Say {
  readonly text?: string;
  readonly reasoning?: string;
  /** Seals the reasoning (Anthropic) or the first part after it (Google). */
  readonly signature?: string;
  readonly refusal?: string;
  readonly calls?: readonly { readonly id?: string; readonly name: string; readonly arguments?: unknown }[];
  /** Default: `tool_calls` where there are calls, else `stop`. */
  readonly finish?: 'stop' | 'length' | 'tool_calls' | 'content_filter';
  /** Default: 10 in, and one token out for each four characters. */
  readonly usage?: Partial<ResolvedUsage>;
  /**
   * How a stream tells it. `usual`: as the wire's documentation has it; `missing`; `twice`: the same once more;
   * `late`: only at the very end (on Anthropic nothing in the start; on Google in a chunk of its own);
   * `finish`: with the chunk that says why it ended; `always`: what is known so far in every chunk.
   */
  readonly usageAt?: 'usual' | 'missing' | 'twice' | 'late' | 'finish' | 'always';
  /** Characters of an event; `Infinity`: all in one. */
  readonly piece?: number;
  readonly id?: string;
  /** For embeddings: a vector for each input. */
  readonly vectors?: readonly (readonly number[])[];
}

/** All of `input` is the whole of it. */
export interface ResolvedUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  /** Reasoning included. */
  readonly output: number;
  readonly reasoning: number;
}

/** What all wires say. */
export interface ResolvedAnswer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly reasoning: string;
  readonly signature: string | undefined;
  readonly refusal: string | undefined;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly finish: NonNullable<Say['finish']>;
  readonly usage: ResolvedUsage;
  readonly usageAt: NonNullable<Say['usageAt']>;
  readonly pieces: (text: string) => string[];
  readonly vectors: NonNullable<Say['vectors']> | undefined;
}

export function resolveAnswer(say: Say, model: string): ResolvedAnswer {
  const { text = '', reasoning = '', piece = 12, usage = {} } = say;
  const calls = (say.calls ?? []).map(({ id, name, arguments: args = {} }, index) => ({
    id: id ?? `call_${index}`,
    name,
    arguments: typeof args === 'string' ? args : JSON.stringify(args),
  }));
  const written =
    reasoning.length + text.length + calls.reduce((sum, call) => sum + call.arguments.length, 0);
  return {
    id: say.id ?? 'said-1',
    model,
    text,
    reasoning,
    signature: say.signature,
    refusal: say.refusal,
    calls,
    finish: say.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    usage: {
      input: 10,
      cacheRead: 0,
      cacheWrite: 0,
      cacheWrite1h: 0,
      reasoning: Math.ceil(reasoning.length / 4),
      output: Math.ceil(written / 4),
      ...usage,
    },
    usageAt: say.usageAt ?? 'usual',
    pieces: (whole) => {
      const characters = Array.from(whole);
      if (characters.length <= piece) return whole === '' ? [] : [whole];
      return Array.from({ length: Math.ceil(characters.length / piece) }, (_, index) =>
        characters.slice(index * piece, (index + 1) * piece).join(''),
      );
    },
    vectors: say.vectors,
  };
}

export interface Speech {
  readonly body: (answer: ResolvedAnswer, request: Readonly<Record<string, unknown>>) => unknown;
  readonly frames: (answer: ResolvedAnswer, request: Readonly<Record<string, unknown>>) => SseFrame[];
  /** An error as the provider words it. */
  readonly error: (status: number, message: string) => unknown;
}

/** Frames of one wire with the usage in the places asked for; the last of `frames` says why it ended. */
export function withUsage<T extends object>(
  { usageAt }: ResolvedAnswer,
  chunks: readonly T[],
  { on, alone, usual }: { on: (chunk: T) => T; alone: () => T; usual: 'alone' | 'always' },
): T[] {
  const last = chunks.length - 1;
  const at = usageAt === 'usual' ? usual : usageAt;
  if (at === 'missing') return [...chunks];
  if (at === 'always') return chunks.map(on);
  if (at === 'finish') return chunks.map((chunk, index) => (index === last ? on(chunk) : chunk));
  return [...chunks, alone(), ...(at === 'twice' ? [alone()] : [])];
}

export const plainFrames = (chunks: readonly unknown[]): SseFrame[] => chunks.map((chunk) => frame(chunk));
