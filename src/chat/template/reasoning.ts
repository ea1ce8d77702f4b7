import type { ReasoningDelimiters } from '../parser/answer-parser.ts';

interface ReasoningFormat extends ReasoningDelimiters {
  /** A template that contains one of these texts uses this format. */
  readonly signatures: readonly string[];
}

const reasoningFormats: readonly ReasoningFormat[] = [
  {
    signatures: ['<|channel|>analysis'],
    open: ['<|channel|>analysis<|message|>'],
    close: ['<|end|><|start|>assistant'],
  },
  {
    signatures: ['<response>'],
    open: ['<think>'],
    close: ['</think>'],
    answer: { open: '<response>', close: '</response>' },
  },
  { signatures: ['<seed:think>'], open: ['<seed:think>'], close: ['</seed:think>'] },
  { signatures: ['[THINK]'], open: ['[THINK]'], close: ['[/THINK]'] },
  { signatures: ['<|START_THINKING|>'], open: ['<|START_THINKING|>'], close: ['<|END_THINKING|>'] },
  {
    signatures: ['<|channel>thought'],
    open: ['<|channel>thought\n', '<|channel>thought'],
    close: ['<channel|>'],
  },
  { signatures: ['<|inner_prefix|>'], open: ['<|inner_prefix|>'], close: ['<|inner_suffix|>'] },
  { signatures: ['<think>', '</think>'], open: ['<think>\n', '<think>'], close: ['</think>'] },
];

/** The reasoning delimiters of a template's model; undefined when the model is not known to reason. */
export const detectReasoning = (source: string): ReasoningDelimiters | undefined =>
  reasoningFormats.find(({ signatures }) => signatures.some((text) => source.includes(text)));

/** Whether an answer starts inside reasoning, may start with reasoning, or comes after it. */
export type ReasoningState = 'within' | 'before' | 'after';

/** @param continuedText the start of the answer that is already in the prompt */
export function findReasoningState(
  delimiters: ReasoningDelimiters | undefined,
  prompt: string,
  continuedText: string,
): ReasoningState {
  if (!delimiters) return 'after';
  const { open, close } = delimiters;
  const lastIndexOfAny = (texts: readonly string[]) =>
    Math.max(...texts.map((text) => continuedText.lastIndexOf(text)));
  if (lastIndexOfAny(open) !== lastIndexOfAny(close))
    return lastIndexOfAny(open) > lastIndexOfAny(close) ? 'within' : 'after';
  if (continuedText.trim() !== '') return 'after';
  const end = prompt.trimEnd();
  if (close.some((text) => end.endsWith(text))) return 'after';
  return open.some((text) => end.endsWith(text.trimEnd())) ? 'within' : 'before';
}

/** Splits a past answer that a client sent with its reasoning at the start; undefined when it has none. */
export function splitReasoning(
  text: string,
  { open, close }: ReasoningDelimiters,
): { reasoning: string; content: string } | undefined {
  const start = text.trimStart();
  const begin = open.find((delimiter) => start.startsWith(delimiter));
  if (begin === undefined) return undefined;
  const [end] = close;
  const at = end === undefined ? -1 : start.indexOf(end);
  if (end === undefined || at === -1) return undefined;
  return {
    reasoning: start.slice(begin.length, at).trim(),
    content: start.slice(at + end.length).trimStart(),
  };
}
