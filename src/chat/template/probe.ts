import type { ChatMessage, ChatTemplate } from '../../engine/index.ts';
import { requiredVariables } from './thinking.ts';

/** Texts of the conversation for test renderings. No template contains them itself. */
export const probe = {
  system: 'probe system 71',
  laterSystem: 'probe instruction 72',
  question: 'probe question 73',
  answer: 'probe answer 74',
  lastQuestion: 'probe last question 75',
  callText: 'probe saying 76',
  thought: 'probe thought 77',
  values: ['probe value', 'probe second value'],
  results: ['probe result 78', 'probe second result 79'],
} as const;

export const probeTool = {
  type: 'function',
  function: {
    name: 'probe_tool',
    description: 'probe description',
    parameters: {
      type: 'object',
      properties: { probe_key: { type: 'string', description: 'probe parameter' } },
      required: ['probe_key'],
    },
  },
};

/** How assistant messages with calls are passed to a template. */
export interface CallMessageShape {
  readonly arguments: 'object' | 'text';
  /** The value for no content. */
  readonly noContent: '' | null;
  /** Whether all calls are in one message; otherwise each call has a message, followed by its result. */
  readonly isOneMessage: boolean;
  /** Whether ids must have nine letters and digits. */
  readonly shortIds: boolean;
  /**
   * Content is in the message of the calls, in a message before it, or dropped because the template cannot render it.
   */
  readonly content: 'same' | 'before' | 'lost';
}

export const probeMessages = (
  shape: CallMessageShape,
  { callText = '', id = 'abcdef12' } = {},
): ChatMessage[] => {
  const calls = probe.values.map((value, index) => ({
    id: `${id}${index}`,
    type: 'function',
    function: {
      name: 'probe_tool',
      arguments: shape.arguments === 'object' ? { probe_key: value } : JSON.stringify({ probe_key: value }),
    },
  }));
  const results = probe.results.map((content, index) => ({
    role: 'tool',
    content,
    name: 'probe_tool',
    tool_call_id: `${id}${index}`,
  }));
  const callMessage = (messageCalls: unknown[], content: string | null): ChatMessage => ({
    role: 'assistant',
    content,
    tool_calls: messageCalls,
  });
  const contentMessages =
    shape.content === 'before' && callText !== '' ? [{ role: 'assistant', content: callText }] : [];
  const content = shape.content === 'same' && callText !== '' ? callText : shape.noContent;
  const turns = shape.isOneMessage
    ? [callMessage(calls, content), ...results]
    : calls.flatMap((call, index) => [
        callMessage([call], index === 0 ? content : shape.noContent),
        results[index] as ChatMessage,
      ]);
  return [
    { role: 'user', content: probe.question },
    ...contentMessages,
    ...turns,
    { role: 'assistant', content: probe.answer },
    { role: 'user', content: probe.lastQuestion },
  ];
};

/** Renders a conversation; undefined when the template rejects it. */
export function tryRender(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: { tools?: readonly unknown[]; variables?: Readonly<Record<string, unknown>> } = {},
): string | undefined {
  try {
    const variables = { ...requiredVariables(template.source), ...options.variables };
    return template.render({ messages, addGenerationPrompt: true, ...options, variables });
  } catch {
    return undefined;
  }
}

/** Whether a rendering contains the texts in this order. */
export function containsInOrder(rendered: string | undefined, texts: readonly string[]): boolean {
  if (rendered === undefined) return false;
  let at = 0;
  for (const text of texts) {
    const found = rendered.indexOf(text, at);
    if (found === -1) return false;
    at = found + text.length;
  }
  return true;
}
