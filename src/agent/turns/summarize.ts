import { AgentError } from '../errors.ts';
import type { ChatModel, ChatModelMessage } from '../chat-model.ts';
import type { AgentSampling } from '../shapes/agent-spec.ts';
import { type ModelAnswer, readAnswer } from './read-answer.ts';

/** Completion tokens of a summary, and how many it needs at least. */
const maxSummaryTokens = 1024;
const minSummaryTokens = 32;
/** Characters of a message, and of all of them, that the summary is made from. */
const maxMessageLength = 1000;
const maxTranscriptLength = 12_000;

const instructions =
  'Summarize the conversation below for the assistant that goes on with it: what was asked, what was found out and decided, ' +
  'what was changed and where, what is left to do. Keep names, paths and numbers. Write the summary and nothing else.';

/**
 * Has the model summarize messages.
 * @param maxTokens completion tokens that may be spent on it
 * @returns undefined when it could not, as with a context or a budget that is too small even for that
 */
export async function summarize(
  chatModel: ChatModel,
  messages: readonly ChatModelMessage[],
  {
    maxTokens,
    sampling,
    signal,
  }: { readonly maxTokens: number; readonly sampling: AgentSampling; readonly signal: AbortSignal },
): Promise<ModelAnswer | undefined> {
  if (maxTokens < minSummaryTokens) return undefined;
  const request = {
    messages: [
      { role: 'system', content: instructions },
      { role: 'user', content: transcriptOf(messages) },
    ] as const,
    tools: [],
    sampling,
    maxTokens: Math.min(maxSummaryTokens, maxTokens),
  };
  try {
    const answer = await readAnswer(chatModel, request, () => Promise.resolve(), signal);
    return answer.text.trim() === '' ? undefined : answer;
  } catch (error) {
    if (signal.aborted || !(error instanceof AgentError)) throw error;
    return undefined;
  }
}

/** The messages as text; of a long conversation the beginning and the end. */
function transcriptOf(messages: readonly ChatModelMessage[]): string {
  const text = messages.map(lineOf).join('\n');
  if (text.length <= maxTranscriptLength) return text;
  const half = maxTranscriptLength / 2;
  return `${text.slice(0, half)}\n[...]\n${text.slice(-half)}`;
}

function lineOf(message: ChatModelMessage): string {
  const calls =
    message.role === 'assistant' ? message.calls.map((call) => `[calls ${call.name} ${call.arguments}]`) : [];
  const text = [message.content, ...calls].filter((part) => part !== '').join(' ');
  return `${message.role}: ${text.length > maxMessageLength ? `${text.slice(0, maxMessageLength)} [...]` : text}`;
}
