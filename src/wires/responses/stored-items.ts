import { createId } from './common-members.ts';
import type { InputItem } from './items-schema.ts';

type Content = Extract<InputItem, { role: string }>['content'];

/** Writes an item of a request as a stored item: complete, with an id. */
export function writeStoredItem(item: InputItem): { readonly id: string } & Record<string, unknown> {
  const status = 'completed';
  switch (item.type) {
    case 'function_call':
    case 'function_call_output':
      return {
        ...item,
        ...(item.type === 'function_call_output' ? { output: writeOutput(item.output) } : {}),
        id: createId('fc', true),
        status,
      };
    case 'custom_tool_call':
    case 'custom_tool_call_output':
      return {
        ...item,
        ...(item.type === 'custom_tool_call_output' ? { output: writeOutput(item.output) } : {}),
        id: createId('ctc', true),
        status,
      };
    case 'reasoning':
      return {
        id: createId('rs', true),
        type: item.type,
        summary: textsOf(item.summary ?? []).map((text) => ({ type: 'summary_text', text })),
        content: textsOf(item.content ?? []).map((text) => ({ type: 'reasoning_text', text })),
        encrypted_content: null,
        status,
      };
    case 'compaction':
      return { ...item, id: item.id ?? createId('cmp', true) };
    case 'mcp_list_tools':
      return { id: createId('mcpl', true), ...item, tools: [], error: null };
    case 'mcp_call':
      return {
        ...item,
        status: item.error ? 'failed' : status,
        output: item.output ?? null,
        error: item.error ?? null,
        approval_request_id: item.approval_request_id ?? null,
      };
    case 'mcp_approval_request':
      return item;
    case 'mcp_approval_response':
      return { id: createId('mcpa', true), ...item, reason: item.reason ?? null };
    default:
      return {
        id: createId('msg', true),
        type: 'message',
        status,
        role: item.role,
        content: item.role === 'assistant' ? writeAnswer(item.content) : writeInput(item.content),
      };
  }
}

const textsOf = (content: Content): string[] =>
  typeof content === 'string'
    ? [content]
    : (content ?? []).map((part) => ('text' in part ? part.text : part.refusal));

const writeInput = (content: Content) => textsOf(content).map((text) => ({ type: 'input_text', text }));

const writeOutput = (output: Content) => (typeof output === 'string' ? output : writeInput(output));

const writeAnswer = (content: Content) =>
  (typeof content === 'string' ? [{ text: content }] : (content ?? [])).map((part) =>
    'text' in part
      ? { type: 'output_text', text: part.text, annotations: [], logprobs: [] }
      : { type: 'refusal', refusal: part.refusal },
  );
