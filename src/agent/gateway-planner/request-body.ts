import type { PlannerMessage, PlannerRequest } from '../planner.ts';

/** A request as OpenAI's chat completions have it. */
export function asked(model: string, request: PlannerRequest): object {
  const { messages, tools, toolChoice = 'auto', responseFormat, sampling, maxTokens } = request;
  return {
    model,
    messages: messages.map(toMessage),
    ...(tools.length === 0 ? {} : { tools: tools.map(toTool), tool_choice: toChoice(toolChoice) }),
    ...(responseFormat ? { response_format: toFormat(responseFormat) } : {}),
    ...sampling,
    max_tokens: maxTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
}

function toMessage(message: PlannerMessage): object {
  if (message.role === 'tool')
    return { role: 'tool', tool_call_id: message.callId, content: message.content };
  if (message.role !== 'assistant') return { role: message.role, content: message.content };
  const { content, calls } = message;
  if (calls.length === 0) return { role: 'assistant', content };
  return {
    role: 'assistant',
    content: content === '' ? null : content,
    tool_calls: calls.map(({ id, name, arguments: args }) => ({
      id,
      type: 'function',
      function: { name, arguments: args === '' ? '{}' : args },
    })),
  };
}

const toTool = ({ name, description, inputSchema }: PlannerRequest['tools'][number]) => ({
  type: 'function',
  function: { name, description, parameters: inputSchema },
});

const toChoice = (choice: NonNullable<PlannerRequest['toolChoice']>) =>
  typeof choice === 'string' ? choice : { type: 'function', function: choice };

const toFormat = (format: NonNullable<PlannerRequest['responseFormat']>) =>
  format.type === 'json'
    ? { type: 'json_object' }
    : { type: 'json_schema', json_schema: { name: 'answer', schema: format.schema } };
