import { parse } from 'smol-toml';
import { type DeclaredField, inputFields } from '../../agents/declared-fields.ts';

interface WorkflowInputs {
  readonly inputs: readonly DeclaredField[];
  /** Kind of the entry gate. */
  readonly entry: string | undefined;
  /** A step reads `input`, the text of the request. */
  readonly usesInput: boolean;
}

/** Declared inputs and entry of a workflow; undefined when the TOML cannot be parsed, which lint reports. */
export function parseWorkflowInputs(source: string): WorkflowInputs | undefined {
  try {
    const { inputs, entry, steps } = parse(source);
    const kind = propertyOf(entry, 'kind');
    return {
      inputs: inputFields(inputs),
      entry: typeof kind === 'string' ? kind : undefined,
      usesInput: Array.isArray(steps) && steps.some(usesRequestText),
    };
  } catch {
    return undefined;
  }
}

const propertyOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;

function usesRequestText(step: unknown): boolean {
  const gate = propertyOf(step, 'gate');
  const templates = [propertyOf(step, 'prompt'), propertyOf(gate, 'message')];
  const conditions = [propertyOf(step, 'when'), propertyOf(gate, 'expr'), propertyOf(gate, 'where')];
  const anyMatches = (texts: readonly unknown[], form: RegExp) =>
    texts.some((text) => typeof text === 'string' && form.test(text));
  return (
    anyMatches(templates, /\{\{\s*input\s*\}\}/) || anyMatches(conditions, /(?<![.\w"'])input(?![\w"'])/)
  );
}
