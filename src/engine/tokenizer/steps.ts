import { ModelFileError } from '../formats/model-file.ts';
import { ExpressionError } from './expression.ts';

/** A member of tokenizer.json that says by its `type` what it does: a normalizer, a pre-tokenizer, a processor. */
export interface Step {
  readonly type: string;
  readonly [member: string]: unknown;
}

/** The steps under a metadata key of ours, where they stand as JSON. */
export function readSteps(value: unknown): readonly Step[] | undefined {
  return typeof value === 'string' ? (JSON.parse(value) as readonly Step[]) : undefined;
}

export function unsupportedStep(what: string, step: Step): ModelFileError {
  return new ModelFileError(
    'unsupported_tokenizer',
    `the tokenizer's ${what} ${JSON.stringify(step)} is not supported; use a GGUF file of the model instead`,
  );
}

/** Runs what reads a regular expression, and says which step it was that could not be read. */
export function readingStep<T>(what: string, step: Step, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new ModelFileError(
      'unsupported_tokenizer',
      `the tokenizer's ${what} has an expression that cannot be run here: ${error.message}; use a GGUF file of the model instead`,
    );
  }
}

/** `{ String }` stands for itself, `{ Regex }` is an expression. */
export function patternOf(step: Step): string | undefined {
  const pattern = step['pattern'] as { String?: unknown; Regex?: unknown } | undefined;
  if (typeof pattern?.Regex === 'string') return pattern.Regex;
  if (typeof pattern?.String !== 'string') return undefined;
  return pattern.String.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}
