import { randomBytes } from 'node:crypto';
import { isRecord } from '../../util/json.ts';
import type { AnswerMetadata } from '../core/wire.ts';

/**
 * Creates an id such as `resp_…`, `msg_…`, `fc_…` or `rs_…`.
 */
export const createId = (
  prefix: 'resp' | 'msg' | 'fc' | 'ctc' | 'cmp' | 'rs' | 'mcp' | 'mcpl' | 'mcpa' | 'r',
  isResident = false,
): string => `${prefix}_${randomBytes(isResident ? 16 : 24).toString('hex')}`;

/**
 * Members of a response that repeat its request: all members that clients expect, with the defaults that apply.
 */
export function writeCommonMembers({
  model,
  created,
  request: { body },
  resident,
}: AnswerMetadata): Readonly<Record<string, unknown>> {
  const reasoning = isRecord(body['reasoning']) ? body['reasoning'] : {};
  return {
    id: resident?.response?.id ?? createId('resp', resident !== undefined),
    object: 'response',
    created_at: created,
    model,
    instructions: body['instructions'] ?? null,
    previous_response_id: resident?.response?.previousId ?? null,
    tools: writeTools(body['tools']),
    tool_choice: body['tool_choice'] ?? 'auto',
    parallel_tool_calls: body['parallel_tool_calls'] ?? true,
    max_tool_calls: body['max_tool_calls'] ?? null,
    max_output_tokens: body['max_output_tokens'] ?? null,
    truncation: 'disabled',
    text: resident ? writeResidentText(body['text']) : writeText(body['text']),
    reasoning: {
      effort: reasoning['effort'] ?? body['reasoning_effort'] ?? null,
      summary: reasoning['summary'] ?? null,
    },
    temperature: body['temperature'] ?? 1,
    top_p: body['top_p'] ?? 1,
    presence_penalty: body['presence_penalty'] ?? 0,
    frequency_penalty: body['frequency_penalty'] ?? 0,
    top_logprobs: body['top_logprobs'] ?? 0,
    store: resident?.response?.isStored ?? false,
    background: resident?.response?.isBackground ?? false,
    service_tier: 'default',
    metadata: body['metadata'] ?? {},
    ...(typeof body['user'] === 'string' ? { user: body['user'] } : {}),
    safety_identifier: body['safety_identifier'] ?? null,
    prompt_cache_key: body['prompt_cache_key'] ?? null,
  };
}

const writeTools = (tools: unknown): unknown[] =>
  (Array.isArray(tools) ? tools : []).filter(isRecord).map((tool) => {
    const { type, name, ...rest } = tool;
    if (type === 'mcp') return tool;
    if (type === 'custom')
      return {
        type,
        name,
        description: rest['description'] ?? null,
        format: rest['format'] ?? { type: 'text' },
      };
    return {
      type,
      name,
      description: rest['description'] ?? null,
      parameters: rest['parameters'] ?? null,
      strict: rest['strict'] ?? null,
    };
  });

function writeText(text: unknown): Readonly<Record<string, unknown>> {
  const { format, verbosity } = isRecord(text) ? text : {};
  return { format: format ?? { type: 'text' }, verbosity: verbosity ?? 'medium' };
}

/** The `text` member of the resident model, which ignores verbosity hints and enforces every schema. */
function writeResidentText(text: unknown): Readonly<Record<string, unknown>> {
  const { format } = writeText(text);
  if (!isRecord(format) || format['type'] !== 'json_schema') return { format, verbosity: 'medium' };
  return { format: { ...format, strict: format['strict'] ?? true }, verbosity: 'medium' };
}
