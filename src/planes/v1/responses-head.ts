import type { ModelInfo } from '../../engine/index.ts';
import { freshId } from '../turn/ids.ts';
import type { ResponseRequest } from './responses-request.ts';
import type { ResponseHead } from './responses-schema.ts';

/** What a response says of its request: all members that clients expect, with the defaults that apply. */
export function responseHead(body: ResponseRequest, model: ModelInfo): ResponseHead {
  return {
    id: freshId('resp'),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    model: model.id,
    instructions: body.instructions ?? null,
    previous_response_id: null,
    tools: (body.tools ?? []).map(({ type, name, description, parameters, strict }) => ({
      type,
      name,
      description: description ?? null,
      parameters: parameters ?? null,
      strict: strict ?? null,
    })),
    tool_choice: body.tool_choice ?? 'auto',
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    max_tool_calls: body.max_tool_calls ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    truncation: 'disabled',
    text: { format: toFormat(body), verbosity: 'medium' },
    reasoning: { effort: body.reasoning?.effort ?? null, summary: body.reasoning?.summary ?? null },
    temperature: body.temperature ?? 1,
    top_p: body.top_p ?? 1,
    presence_penalty: body.presence_penalty ?? 0,
    frequency_penalty: body.frequency_penalty ?? 0,
    top_logprobs: body.top_logprobs ?? 0,
    store: false,
    background: false,
    service_tier: 'default',
    metadata: body.metadata ?? {},
    ...(body.user ? { user: body.user } : {}),
    safety_identifier: body.safety_identifier ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
  };
}

function toFormat({ text }: ResponseRequest): ResponseHead['text']['format'] {
  const format = text?.format;
  if (format?.type !== 'json_schema') return { type: format?.type ?? 'text' };
  const { type, name, schema, description, strict } = format;
  // A schema is always kept.
  return { type, name, schema, strict: strict ?? true, ...(description ? { description } : {}) };
}
