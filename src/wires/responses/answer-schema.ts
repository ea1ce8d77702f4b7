import { z } from 'zod';
import { mcpOutputItems, mcpTool } from './mcp-schema.ts';

/** Log probabilities of one token, in natural logarithms. */
const tokenMembers = { token: z.string(), logprob: z.number(), bytes: z.array(z.int()) };
const logprob = z.object({ ...tokenMembers, top_logprobs: z.array(z.object(tokenMembers)) });
export type ResponseLogprob = z.infer<typeof logprob>;

const status = z.enum(['in_progress', 'completed', 'incomplete']);
export type ItemStatus = z.infer<typeof status>;

const textPart = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.never()),
  logprobs: z.array(logprob),
});
export type TextPart = z.infer<typeof textPart>;
const reasoningPart = z.object({ type: z.literal('reasoning_text'), text: z.string() });
export type ReasoningPart = z.infer<typeof reasoningPart>;

const messageItem = z.object({
  id: z.string(),
  type: z.literal('message'),
  status,
  role: z.literal('assistant'),
  content: z.array(textPart),
});
const callItem = z.object({
  id: z.string(),
  type: z.literal('function_call'),
  status,
  call_id: z.string().describe('Referenced by the `function_call_output`.'),
  name: z.string(),
  arguments: z.string().describe('JSON.'),
});
const customCallItem = z.object({
  id: z.string(),
  type: z.literal('custom_tool_call'),
  status,
  call_id: z.string().describe('Referenced by the `custom_tool_call_output`.'),
  name: z.string(),
  input: z.string(),
});
const reasoningItem = z.object({
  id: z.string(),
  type: z.literal('reasoning'),
  status,
  summary: z.array(z.never()),
  content: z.array(reasoningPart).describe('The complete reasoning text.'),
  encrypted_content: z.null(),
});
export const outputItem = z.discriminatedUnion('type', [
  reasoningItem,
  messageItem,
  callItem,
  customCallItem,
  ...mcpOutputItems,
]);
export type OutputItem = z.infer<typeof outputItem>;
export type MessageItem = z.infer<typeof messageItem>;
export type CallItem = z.infer<typeof callItem>;
export type ReasoningItem = z.infer<typeof reasoningItem>;

export const responseUsage = z.object({
  input_tokens: z.int(),
  input_tokens_details: z.object({
    cached_tokens: z.int().describe('Included in input_tokens.'),
    cache_write_tokens: z.int(),
  }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ reasoning_tokens: z.int().describe('Included in output_tokens.') }),
  total_tokens: z.int(),
});

const nullableText = z.string().nullable();
const object = z.looseObject({});

/** Members that are the same in all snapshots of a response. */
const commonMembers = {
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  model: z.string(),
  instructions: nullableText,
  previous_response_id: nullableText,
  tools: z.array(
    z.discriminatedUnion('type', [
      z.object({
        type: z.literal('function'),
        name: z.string(),
        description: nullableText,
        parameters: object.nullable(),
        strict: z.boolean().nullable(),
      }),
      z.object({ type: z.literal('custom'), name: z.string(), description: nullableText, format: object }),
      mcpTool,
    ]),
  ),
  tool_choice: z.union([z.string(), object]),
  parallel_tool_calls: z.boolean(),
  max_tool_calls: z.int().nullable(),
  max_output_tokens: z.int().nullable(),
  truncation: z.literal('disabled'),
  text: z.object({ format: object, verbosity: z.literal('medium') }),
  reasoning: z.object({ effort: nullableText, summary: nullableText }),
  temperature: z.number(),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  store: z.boolean().describe('Whether the response is stored: `--store-responses`.'),
  background: z.boolean(),
  service_tier: z.literal('default'),
  metadata: z.record(z.string(), z.string()),
  user: z.string().optional(),
  safety_identifier: nullableText,
  prompt_cache_key: nullableText,
};
const commonMembersSchema = z.object(commonMembers);
export type ResponseHead = z.infer<typeof commonMembersSchema>;

export const responseObject = z
  .object({
    ...commonMembers,
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    completed_at: z.int().nullable(),
    output: z.array(outputItem),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    incomplete_details: z.object({ reason: z.literal('max_output_tokens') }).nullable(),
    usage: responseUsage.nullable().describe('Null while the answer is generated.'),
  })
  .meta({ id: 'Response' });
export type ResponseObject = z.infer<typeof responseObject>;

const itemReference = { item_id: z.string(), output_index: z.int() };
const partReference = { ...itemReference, content_index: z.literal(0) };
const part = z.union([textPart, reasoningPart]);
const event = <Type extends string, Members extends z.ZodRawShape>(type: Type, members: Members) =>
  z.object({ type: z.literal(type), sequence_number: z.int(), ...members });

export const responseEvent = z
  .discriminatedUnion('type', [
    event('response.created', { response: responseObject }),
    event('response.queued', { response: responseObject }),
    event('response.in_progress', { response: responseObject }),
    event('response.output_item.added', { output_index: z.int(), item: outputItem }),
    event('response.content_part.added', { ...partReference, part }),
    event('response.reasoning_text.delta', { ...partReference, delta: z.string() }),
    event('response.reasoning_text.done', { ...partReference, text: z.string() }),
    event('response.output_text.delta', { ...partReference, delta: z.string(), logprobs: z.array(logprob) }),
    event('response.output_text.done', { ...partReference, text: z.string(), logprobs: z.array(logprob) }),
    event('response.content_part.done', { ...partReference, part }),
    event('response.function_call_arguments.delta', { ...itemReference, delta: z.string() }),
    event('response.function_call_arguments.done', {
      ...itemReference,
      name: z.string(),
      arguments: z.string(),
    }),
    event('response.custom_tool_call_input.delta', { ...itemReference, delta: z.string() }),
    event('response.custom_tool_call_input.done', { ...itemReference, input: z.string() }),
    event('response.mcp_list_tools.in_progress', itemReference),
    event('response.mcp_list_tools.completed', itemReference),
    event('response.mcp_list_tools.failed', itemReference),
    event('response.mcp_call.in_progress', itemReference),
    event('response.mcp_call_arguments.done', { ...itemReference, arguments: z.string() }),
    event('response.mcp_call.completed', itemReference),
    event('response.mcp_call.failed', itemReference),
    event('response.output_item.done', { output_index: z.int(), item: outputItem }),
    event('response.completed', { response: responseObject }),
    event('response.incomplete', { response: responseObject }),
    event('response.failed', { response: responseObject }),
    event('error', {
      code: nullableText,
      message: z.string(),
      param: nullableText,
      error: z.object({ type: z.string(), code: nullableText, message: z.string(), param: nullableText }),
    }),
  ])
  .meta({ id: 'ResponseStreamEvent' });
export type ResponseEvent = z.infer<typeof responseEvent>;
