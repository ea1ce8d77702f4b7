import { z } from 'zod';
import { agentLimits, type AgentSpec, agentSpec } from '../../shapes/agent-spec.ts';
import { nonEmptyText, resourceName, text } from '../../shapes/common.ts';
import { suggestName } from './near-miss.ts';

/** Schema and parsed form of a workflow's TOML. `docs/workflows.md` documents the keys. */

/** Names that are literal path segments of `/agent/v1/workflows`. */
export const reservedNames = ['runs', 'builtins', 'fork'];

export const identifierRule = 'expected a letter and then up to 63 letters, digits, dashes and underscores';
/** Names of inputs and ids of steps, as templates and conditions use them. */
export const identifier = z
  .string({ error: identifierRule })
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, identifierRule);

const tableError = (what: string) => ({ error: `expected a table: ${what}` });
const secondsBetween = (least: number, most: number) => {
  const error = `expected a number of seconds from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const maxWaitSecs = 366 * 86_400;

/** A JSON schema; `json-schema.ts` validates it. */
const schema = z.record(z.string(), z.unknown(), tableError('a JSON schema'));
/** A CEL expression; `cel.ts` validates it. */
const expression = nonEmptyText;
const message = text
  .max(2000, 'at most 2000 characters')
  .optional()
  .describe('Template of a message for the person who decides.');

/** Error text for a table whose `kind` is not one of `kinds`. */
function describeKinds(kinds: readonly string[], value: unknown): string {
  const rule = `expected a table with kind = ${kinds.map((kind) => `"${kind}"`).join(' or ')}`;
  const { kind } = (value ?? {}) as { kind?: unknown };
  return typeof kind === 'string' ? `${rule}, got '${kind.slice(0, 64)}'${suggestName(kind, kinds)}` : rule;
}

const gateKinds = ['input', 'time', 'value', 'event', 'approval'] as const;
const gateVariants = {
  /** Waits for inputs. They are the output of a step without an agent; otherwise its prompt reads `{{gate.NAME}}`. */
  input: z.looseObject({ kind: z.literal('input'), schema: schema.optional(), message }),
  /** Has exactly one of `after_secs` and `until` (RFC 3339). */
  time: z.looseObject({
    kind: z.literal('time'),
    after_secs: secondsBetween(0, maxWaitSecs).optional(),
    until: text.optional(),
    message,
  }),
  value: z.looseObject({
    kind: z.literal('value'),
    expr: expression,
    poll_secs: secondsBetween(1, 86_400).default(30),
    message,
  }),
  /**
   * Waits for an event `{name, data}`. It is the output of a step without an agent; a prompt reads
   * `{{gate.data.NAME}}`.
   */
  event: z.looseObject({
    kind: z.literal('event'),
    name: nonEmptyText.max(200, 'at most 200 characters'),
    where: expression.optional(),
    message,
  }),
  approval: z.looseObject({ kind: z.literal('approval'), message }),
};
/** What a step waits for before its agent starts. */
export const gate = z.discriminatedUnion(
  'kind',
  [gateVariants.input, gateVariants.time, gateVariants.value, gateVariants.event, gateVariants.approval],
  { error: (issue) => describeKinds(gateKinds, issue.input) },
);
export type Gate = z.infer<typeof gate>;

export const retry = z.looseObject(
  {
    attempts: z
      .int({ error: 'expected a whole number from 1 to 10' })
      .min(1, 'at least 1')
      .max(10, 'at most 10'),
    backoff_secs: secondsBetween(0, 3600).default(0),
  },
  tableError('attempts and backoff_secs'),
);

const listRule = 'expected the list to repeat the step for, such as inputs.files or steps.plan.output.tasks';

/** A step has an agent with a prompt, a workflow, or only a gate. */
export const step = z.looseObject(
  {
    id: identifier,
    agent: resourceName.optional(),
    prompt: text.max(100_000, 'at most 100000 characters').optional(),
    /** Model in place of the agent's. */
    model: nonEmptyText.max(200, 'at most 200 characters').optional(),
    /** Name of a workflow to run as this step, and its inputs; texts in them are templates. */
    workflow: resourceName.optional(),
    inputs: z.record(z.string(), z.unknown(), tableError('inputs of the workflow')).optional(),
    /** A list; the step runs once for each item, and its output is the list of outputs. */
    foreach: z
      .string({ error: listRule })
      .regex(/^(?:inputs\.[\w-]+|steps\.[\w-]+\.output)(?:\.[\w-]+)*$/, listRule)
      .optional(),
    needs: z.array(text, { error: 'expected a list of step ids' }).default([]),
    when: expression.optional(),
    timeout_secs: secondsBetween(0.1, 86_400).default(600),
    retry: retry.prefault({ attempts: 1 }),
    gate: gate.optional(),
    /** JSON schema of the agent's answer. The step's output is then the JSON value instead of a text. */
    output_schema: schema.optional(),
    /** Override the agent's own limits. */
    limits: agentLimits.optional(),
  },
  tableError('a step'),
);
export type Step = z.infer<typeof step>;

const inputTypes = ['string', 'number', 'integer', 'boolean', 'array', 'object'] as const;
export const input = z.looseObject(
  {
    type: z.enum(inputTypes, { error: `expected one of ${inputTypes.join(', ')}` }),
    required: z.boolean({ error: 'expected true or false' }).default(false),
    default: z.unknown().optional(),
    description: text.max(1000, 'at most 1000 characters').optional(),
    enum: z.array(z.unknown(), { error: 'expected a list of values' }).min(1, 'must not be empty').optional(),
  },
  tableError('type, required, default, description, enum'),
);
export type Input = z.infer<typeof input>;

export const schedule = z.looseObject({
  kind: z.literal('schedule'),
  /** Cron expression of five fields. */
  cron: nonEmptyText.max(200, 'at most 200 characters'),
  /** IANA time zone. */
  tz: nonEmptyText.max(100, 'at most 100 characters').default('UTC'),
});
export const armed = z.looseObject({ kind: z.literal('armed') });
const entry = z.discriminatedUnion('kind', [schedule, armed], {
  error: (issue) => describeKinds(['schedule', 'armed'], issue.input),
});
export type Entry = z.infer<typeof entry>;

/** An agent in a workflow; `name` defaults to the key of its table. */
export const inlineAgent = agentSpec.extend({ name: resourceName.optional() });

export const header = z.looseObject(
  {
    name: resourceName.refine((name) => !reservedNames.includes(name), {
      error: `must not be one of ${reservedNames.join(', ')}: they are paths of the interface`,
    }),
    version: nonEmptyText.max(64, 'at most 64 characters').optional(),
    description: text.max(1000, 'at most 1000 characters').optional(),
    /** `builtin:<name>@<version>`, set by fork. */
    origin: text.max(200, 'at most 200 characters').optional(),
    /** Agents that may run at the same time. */
    parallel: z
      .int({ error: 'expected a whole number from 1 to 16' })
      .min(1, 'at least 1')
      .max(16, 'at most 16')
      .default(1),
  },
  tableError('name, version, description, parallel'),
);

/** Names the input that holds the workspace: the agents' working folder, which `.` in grants stands for. */
export const workspace = z.looseObject({ input: identifier }, tableError('input'));
export const output = z.looseObject({ from: text }, tableError('from'));

export const maxSteps = 200;
export const ensembleFile = z.looseObject(
  {
    ensemble: header,
    entry: entry.optional(),
    workspace: workspace.optional(),
    inputs: z.record(z.string(), input, tableError('one for each input')).default({}),
    agents: z.record(z.string(), inlineAgent, tableError('one for each agent')).default({}),
    steps: z
      .array(step, { error: 'expected [[steps]]' })
      .min(1, 'expected at least one of [[steps]]')
      .max(maxSteps, `at most ${maxSteps} steps`),
    /** Step whose output is the result of the run. Default: the last step that ran. */
    output: output.optional(),
  },
  { error: 'expected a TOML document' },
);

/** A valid workflow with all defaults filled in. */
export interface Ensemble {
  readonly name: string;
  readonly version?: string;
  readonly description?: string;
  readonly origin?: string;
  /** Agents that may run at the same time; 1: the steps run one after another. */
  readonly parallel: number;
  readonly entry?: Entry | undefined;
  /** Name of the input that holds the folder; `inputs.ts` resolves it for a run. */
  readonly workspace?: { readonly input: string } | undefined;
  readonly inputs: Readonly<Record<string, Input>>;
  /** Inline agents. A step may also name a stored agent, or `default`. */
  readonly agents: Readonly<Record<string, AgentSpec>>;
  /** In running order: the order of the source, with each step after those it needs. */
  readonly steps: readonly Step[];
  readonly output?: { readonly from: string } | undefined;
}
