import type { Conversation } from '../core/conversation.ts';
import type { ClientRequest } from '../core/wire.ts';
import { messagesOf } from './input-items.ts';
import { formatOf, toolsOf } from './input-settings.ts';
import { present } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import { askedEffort, reasoningOf } from '../chat/request-schema.ts';

/** Converts a Responses request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function conversationOf({ body }: Pick<ClientRequest, 'body'>): Conversation {
  const faults = new Violations();
  for (const member of ['context_management', 'moderation'])
    if (body[member] !== undefined && body[member] !== null)
      faults.refuse(member, 'only models of providers that speak this wire themselves can do this');
  const messages = messagesOf(body, faults);
  const tools = toolsOf(body, faults);
  const format = formatOf(body, faults);
  const reasoning = reasoningOf(faults.read(askedEffort, body) ?? {});
  const number = (member: string, least: number, most: number) =>
    faults.number(body[member], member, { least, most });
  const maxTokens = faults.number(body['max_output_tokens'], 'max_output_tokens', { least: 1, whole: true });
  const topLogprobs = topLogprobsOf(body, faults);
  const parallelToolCalls = faults.flag(body['parallel_tool_calls'], 'parallel_tool_calls');
  const user = body['user'] ?? body['safety_identifier'];
  const optional = {
    parallelToolCalls,
    maxTokens,
    temperature: number('temperature', 0, 2),
    topP: number('top_p', 0, 1),
    presencePenalty: number('presence_penalty', -2, 2),
    frequencyPenalty: number('frequency_penalty', -2, 2),
    topLogprobs,
    reasoning,
    user: typeof user === 'string' ? user : undefined,
  };
  faults.throwAny();
  return { messages, ...tools, stop: [], format, ...present(optional) };
}

/** Log probabilities are requested by `include`, or by `top_logprobs`, which sets the number of alternatives. */
function topLogprobsOf(body: ClientRequest['body'], faults: Violations): number | undefined {
  const bounds = { least: 0, most: 20, whole: true } as const;
  const top = faults.number(body['top_logprobs'], 'top_logprobs', bounds);
  const wanted = faults.list(body['include'], 'include').includes('message.output_text.logprobs');
  return wanted ? (top ?? 0) : top || undefined;
}
