import { isRecord } from '../../../../src/util/json.ts';
import type { components } from '../../../api/schema.d.ts';

type TaskRequest = components['schemas']['TaskRequest'];

/** The task form as typed. */
export interface TaskDraft {
  readonly prompt: string;
  readonly cwd: string;
  readonly max_turns: string;
  readonly max_tokens: string;
  readonly timeout_secs: string;
  readonly temperature: string;
  readonly seed: string;
  /** JSON, or empty. */
  readonly inputs: string;
  readonly answer: 'text' | 'json_object' | 'json_schema';
  /** JSON. */
  readonly schema: string;
}

export const emptyDraft: TaskDraft = {
  prompt: '',
  cwd: '',
  max_turns: '',
  max_tokens: '',
  timeout_secs: '',
  temperature: '',
  seed: '',
  inputs: '',
  answer: 'text',
  schema: '',
};

export type DraftFaults = Partial<Record<keyof TaskDraft, string>>;

/**
 * @param withheld tools of the agent that this task does not get
 * @param tools tools that the agent is granted
 */
export function buildTaskRequest(
  draft: TaskDraft,
  agent: string,
  tools: readonly string[],
  withheld: ReadonlySet<string>,
): { readonly body: TaskRequest } | { readonly faults: DraftFaults } {
  const faults: DraftFaults = {};
  const readNumber = (name: 'max_turns' | 'max_tokens' | 'timeout_secs' | 'temperature' | 'seed') => {
    const text = draft[name].trim();
    const value = Number(text);
    if (text === '') return {};
    if (!Number.isFinite(value)) faults[name] = 'expected a number';
    return { [name]: value };
  };
  const readObject = (name: 'inputs' | 'schema') => {
    try {
      const value = JSON.parse(draft[name]) as unknown;
      if (isRecord(value)) return value;
      faults[name] = 'expected an object such as {"name": "text"}';
    } catch (error) {
      faults[name] = `expected JSON: ${(error as Error).message}`;
    }
    return {};
  };
  if (draft.prompt.trim() === '') faults.prompt = 'is empty: describe what the agent should do';
  const limits = { ...readNumber('max_turns'), ...readNumber('max_tokens'), ...readNumber('timeout_secs') };
  const sampling = { ...readNumber('temperature'), ...readNumber('seed') };
  const grantedTools = tools.filter((name) => !withheld.has(name));
  const body = {
    prompt: draft.prompt,
    agent,
    ...(draft.cwd.trim() === '' ? {} : { cwd: draft.cwd.trim() }),
    ...(draft.inputs.trim() === '' ? {} : { inputs: readObject('inputs') }),
    ...(grantedTools.length === tools.length ? {} : { grants: { tools: grantedTools } }),
    ...(draft.answer === 'text' ? {} : { response_format: responseFormat(draft.answer, readObject) }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(Object.keys(sampling).length === 0 ? {} : { sampling }),
  };
  // The OpenAPI document types the schema as an object without members; any JSON schema is valid.
  return Object.keys(faults).length > 0 ? { faults } : { body: body as TaskRequest };
}

const responseFormat = (answer: 'json_object' | 'json_schema', readObject: (name: 'schema') => object) =>
  answer === 'json_object'
    ? { type: 'json_object' as const }
    : { type: 'json_schema' as const, json_schema: { schema: readObject('schema') } };
