import { z } from 'zod';

const thinkingBlock = z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() });
const textBlock = z.object({ type: z.literal('text'), text: z.string() });
const toolUseBlock = z.object({
  type: z.literal('tool_use'),
  id: z.string().describe('Referenced by the `tool_result`.'),
  name: z.string(),
  input: z.unknown().describe('An object.'),
  caller: z.object({ type: z.literal('direct') }),
});
const block = z.discriminatedUnion('type', [thinkingBlock, textBlock, toolUseBlock]);

/** Usage members that are repeated at the end of the answer. */
const finalUsage = {
  input_tokens: z.int().describe('Without cached tokens.'),
  cache_creation_input_tokens: z.int(),
  cache_read_input_tokens: z.int().describe('Prompt tokens read from the cache.'),
  cache_creation: z.object({ ephemeral_1h_input_tokens: z.int(), ephemeral_5m_input_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ thinking_tokens: z.int().describe('Included in output_tokens.') }),
  server_tool_use: z.null(),
};
const usage = z.object({
  ...finalUsage,
  inference_geo: z.null(),
  service_tier: z.literal('standard'),
  speed: z.null(),
});

const stopReason = z
  .enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'])
  .nullable()
  .describe('Null while the answer is generated.');
const stop = { stop_reason: stopReason, stop_sequence: z.string().nullable(), stop_details: z.null() };

export const messageObject = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(block),
    ...stop,
    container: z.null(),
    diagnostics: z.null(),
    usage,
  })
  .meta({ id: 'Message' });

export const tokenCount = z.object({ input_tokens: z.int() }).meta({ id: 'MessageTokenCount' });

const index = z.int();
const delta = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('signature_delta'), signature: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
]);

export const messageEvent = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('message_start'), message: messageObject }),
    z.object({ type: z.literal('content_block_start'), index, content_block: block }),
    z.object({ type: z.literal('content_block_delta'), index, delta }),
    z.object({ type: z.literal('content_block_stop'), index }),
    z.object({
      type: z.literal('message_delta'),
      delta: z.object({ ...stop, container: z.null() }),
      usage: z.object(finalUsage).describe('Usage of the whole message.'),
    }),
    z.object({ type: z.literal('message_stop') }),
  ])
  .meta({ id: 'MessageStreamEvent' });

export const messagesError = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({
        error_code: z.string(),
        param: z.string().optional().describe('The request member that caused the error.'),
        unsupported: z.array(z.string()).optional().describe('With `thread_unsupported_request`.'),
        violations: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
      }),
    }),
    request_id: z.string().nullable(),
  })
  .meta({ id: 'MessagesError' });
