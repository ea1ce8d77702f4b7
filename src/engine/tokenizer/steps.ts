import { ModelFileError } from '../formats/model-file.ts';
import { ExpressionError } from './expression-parser.ts';

/** An object of tokenizer.json with a `type`: a normalizer, a pre-tokenizer or a post-processor. */
export interface TokenizerStep {
  readonly type: string;
  readonly [member: string]: unknown;
}

/** Parses the steps in a `tokenizer.hugging_face.*` metadata value, which is JSON. */
export function readSteps(value: unknown): readonly TokenizerStep[] | undefined {
  return typeof value === 'string' ? (JSON.parse(value) as readonly TokenizerStep[]) : undefined;
}

export function createUnsupportedStepError(stepKind: string, step: TokenizerStep): ModelFileError {
  return new ModelFileError(
    'unsupported_tokenizer',
    `the tokenizer's ${stepKind} ${JSON.stringify(step)} is not supported; use a GGUF file of the model instead`,
  );
}

/** Calls `read` and reports an unsupported regular expression as an error of the step. */
export function withStepError<T>(stepKind: string, step: TokenizerStep, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new ModelFileError(
      'unsupported_tokenizer',
      `the tokenizer's ${stepKind} has an unsupported regular expression: ${error.message}; use a GGUF file of the model instead`,
    );
  }
}

/** The regular expression of a step's pattern: `{ String }` is literal text, `{ Regex }` is an expression. */
export function patternOf(step: TokenizerStep): string | undefined {
  const pattern = step['pattern'] as { String?: unknown; Regex?: unknown } | undefined;
  if (typeof pattern?.Regex === 'string') return pattern.Regex;
  if (typeof pattern?.String !== 'string') return undefined;
  return pattern.String.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}
