import type { ReasoningMarks } from '../parser/answer.ts';

interface ReasoningFormat extends ReasoningMarks {
  /** A template that contains one of these texts uses this format. */
  readonly telltales: readonly string[];
}

const formats: readonly ReasoningFormat[] = [
  {
    telltales: ['<|channel|>analysis'],
    open: ['<|channel|>analysis<|message|>'],
    close: ['<|end|><|start|>assistant'],
  },
  {
    telltales: ['<response>'],
    open: ['<think>'],
    close: ['</think>'],
    answer: { open: '<response>', close: '</response>' },
  },
  { telltales: ['<seed:think>'], open: ['<seed:think>'], close: ['</seed:think>'] },
  { telltales: ['[THINK]'], open: ['[THINK]'], close: ['[/THINK]'] },
  { telltales: ['<|START_THINKING|>'], open: ['<|START_THINKING|>'], close: ['<|END_THINKING|>'] },
  {
    telltales: ['<|channel>thought'],
    open: ['<|channel>thought\n', '<|channel>thought'],
    close: ['<channel|>'],
  },
  { telltales: ['<|inner_prefix|>'], open: ['<|inner_prefix|>'], close: ['<|inner_suffix|>'] },
  { telltales: ['<think>', '</think>'], open: ['<think>\n', '<think>'], close: ['</think>'] },
];

/** The reasoning delimiters of a template's model; undefined when the model is not known to reason. */
export const reasoningOf = (source: string): ReasoningMarks | undefined =>
  formats.find(({ telltales }) => telltales.some((text) => source.includes(text)));

/** Whether an answer starts inside reasoning, may start with reasoning, or comes after it. */
export type ReasoningPlace = 'within' | 'before' | 'after';

/** @param continuedText the start of the answer that is already in the prompt */
export function reasoningPlace(
  marks: ReasoningMarks | undefined,
  prompt: string,
  written: string,
): ReasoningPlace {
  if (!marks) return 'after';
  const { open, close } = marks;
  const latest = (texts: readonly string[]) => Math.max(...texts.map((text) => written.lastIndexOf(text)));
  if (latest(open) !== latest(close)) return latest(open) > latest(close) ? 'within' : 'after';
  if (written.trim() !== '') return 'after';
  const end = prompt.trimEnd();
  if (close.some((text) => end.endsWith(text))) return 'after';
  return open.some((text) => end.endsWith(text.trimEnd())) ? 'within' : 'before';
}

/** Splits a past answer that a client sent with its reasoning at the start; undefined when it has none. */
export function splitReasoning(
  text: string,
  { open, close }: ReasoningMarks,
): { reasoning: string; content: string } | undefined {
  const start = text.trimStart();
  const begin = open.find((one) => start.startsWith(one));
  if (begin === undefined) return undefined;
  const [end] = close;
  const at = end === undefined ? -1 : start.indexOf(end);
  if (end === undefined || at === -1) return undefined;
  return {
    reasoning: start.slice(begin.length, at).trim(),
    content: start.slice(at + end.length).trimStart(),
  };
}
