import { isRecord } from '../../../util/json.ts';
import { AgentError } from '../../errors.ts';

/** State of a run when a step begins, as templates and conditions read it. */
export interface RunContext {
  readonly workflow: string;
  readonly run: { readonly id: string; readonly started_at: string };
  /** `input` of the run's request; '' when it has none. */
  readonly input: string;
  /** Declared inputs with a given or default value. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Ended steps, by id. */
  readonly steps: Readonly<Record<string, StepContext>>;
  /** Data of the step's own gate: the inputs of `resume`, or the event's `{name, data}`. */
  readonly gate?: unknown;
  /** For a step that is repeated: the item of its list, and the index of the item from 0. */
  readonly item?: { readonly value: unknown; readonly index: number };
}
export interface StepContext {
  readonly state: 'completed' | 'failed' | 'skipped' | 'cancelled' | 'interrupted';
  readonly output?: unknown;
  readonly error?: string;
}

/** `{{steps.draft.output.title}}`: root `steps`, path `draft`, `output`, `title`. */
export interface TemplateReference {
  readonly text: string;
  readonly root: string;
  readonly path: readonly string[];
}

export interface Template {
  readonly parts: readonly (string | TemplateReference)[];
  /** Braces without a valid reference. */
  readonly faults: readonly { readonly text: string; readonly message: string }[];
}

const referencePattern = /^[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*$/;
/** Items of a list that a step is repeated for. */
const maxItems = 1000;
const literalPattern = /^(?:"[^"]*"|'[^']*')$/;

export function parseTemplate(template: string): Template {
  const parts: (string | TemplateReference)[] = [];
  const faults: { text: string; message: string }[] = [];
  let from = 0;
  for (let open = template.indexOf('{{'); open >= 0; open = template.indexOf('{{', from)) {
    const close = template.indexOf('}}', open + 2);
    const text = template.slice(open, close < 0 ? open + 20 : close + 2);
    parts.push(template.slice(from, open));
    if (close < 0) {
      faults.push({
        text,
        message: `'${text}' is not closed by '}}'; braces themselves are written {{"{{"}}`,
      });
      return { parts, faults };
    }
    from = close + 2;
    const inner = text.slice(2, -2).trim();
    const [root = '', ...path] = inner.split('.');
    if (literalPattern.test(inner)) parts.push(inner.slice(1, -1));
    else if (referencePattern.test(inner)) parts.push({ text, root, path });
    else
      faults.push({
        text,
        message: `'${text.slice(0, 80)}' is not a reference such as {{inputs.topic}}; braces themselves are written {{"{{"}}`,
      });
  }
  parts.push(template.slice(from));
  return { parts, faults };
}

/**
 * Fills in a template: texts as they are, other values as JSON, and nothing for an absent input or a skipped step.
 * Inserted values are not expanded again.
 * @throws AgentError `missing_value` with every unresolved reference
 */
export function renderTemplate(template: string, context: RunContext): string {
  const { parts, faults } = parseTemplate(template);
  const missing = faults.map(({ message }) => message);
  const texts = parts.map((part) => {
    if (typeof part === 'string') return part;
    const value = resolveReference(part, context);
    if (value === undefined) missing.push(`there is no ${part.text.slice(0, 200)}`);
    return toText(value);
  });
  if (missing.length > 0)
    throw new AgentError('invalid', 'missing_value', `The text cannot be filled in: ${missing.join('; ')}.`);
  return texts.join('');
}

/**
 * Fills in the templates of a value: of texts, and of the texts in lists and tables. A text that is one reference alone
 * becomes the value that it refers to.
 * @throws AgentError `missing_value`
 */
export function renderValue(value: unknown, context: RunContext): unknown {
  if (Array.isArray(value)) return value.map((one) => renderValue(one, context));
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, renderValue(one, context)]));
  if (typeof value !== 'string') return value;
  const parts = parseTemplate(value).parts.filter((part) => part !== '');
  const [only] = parts;
  if (parts.length !== 1 || only === undefined || typeof only === 'string')
    return renderTemplate(value, context);
  const found = resolveReference(only, context);
  return found === undefined ? renderTemplate(value, context) : found;
}

/**
 * The list that `foreach` names.
 * @throws AgentError `not_a_list`
 */
export function resolveList(reference: string, context: RunContext): readonly unknown[] {
  const [root = '', ...path] = reference.split('.');
  const value = resolveReference({ text: reference, root, path }, context);
  if (Array.isArray(value) && value.length <= maxItems) return value as unknown[];
  // A skipped step, or an input that was not given.
  if (value === '') return [];
  const got = Array.isArray(value)
    ? `it has ${value.length} items, and ${maxItems} is the maximum`
    : `it is ${describeValue(value)}`;
  throw new AgentError('invalid', 'not_a_list', `foreach needs a list in ${reference}, but ${got}.`);
}

const describeValue = (value: unknown): string =>
  value === undefined ? 'not there' : value === null ? 'null' : `of the type ${typeof value}`;

function resolveReference({ root, path }: TemplateReference, context: RunContext): unknown {
  const [name = '', member, ...rest] = path;
  if (root === 'item') return readPath(context.item?.value, path);
  if (root === 'index') return path.length === 0 ? context.item?.index : undefined;
  if (root === 'input') return path.length === 0 ? context.input : undefined;
  if (root === 'workflow') return path.length === 0 ? context.workflow : undefined;
  if (root === 'run') return readPath(context.run, path);
  if (root === 'gate') return readPath(context.gate, path);
  if (root === 'inputs')
    return path.length === 1 ? (ownMember(context.inputs, name) ?? '') : readPath(context.inputs, path);
  if (root !== 'steps' || member !== 'output') return undefined;
  const step = ownMember(context.steps, name) as StepContext | undefined;
  if (step?.state === 'skipped') return '';
  return readPath(step?.output, rest);
}

function readPath(value: unknown, path: readonly string[]): unknown {
  let at = value;
  for (const name of path) at = ownMember(at, name);
  return at;
}

const ownMember = (value: unknown, name: string): unknown =>
  value instanceof Object && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}
