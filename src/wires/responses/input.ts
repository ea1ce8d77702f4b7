import type { Conversation } from '../core/conversation.ts';
import type { ClientRequest } from '../core/wire.ts';
import { readMessages } from './input-items.ts';
import { readFormat, readTools } from './input-settings.ts';
import { omitNullish } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import { effortSchema, readReasoning } from '../chat/request-schema.ts';

/** Converts a Responses request to a provider-neutral conversation. @throws WireError 400 with all violations */
export function readConversation({ body }: Pick<ClientRequest, 'body'>): Conversation {
  const violations = new Violations();
  for (const member of ['context_management', 'moderation'])
    if (body[member] !== undefined && body[member] !== null)
      violations.addUnsupported(
        member,
        'only models of providers that speak this wire themselves can do this',
      );
  const messages = readMessages(body, violations);
  const tools = readTools(body, violations);
  const format = readFormat(body, violations);
  const reasoning = readReasoning(violations.parse(effortSchema, body) ?? {});
  const readNumber = (member: string, min: number, max: number) =>
    violations.number(body[member], member, { min, max });
  const maxTokens = violations.number(body['max_output_tokens'], 'max_output_tokens', {
    min: 1,
    isInteger: true,
  });
  const topLogprobs = readTopLogprobs(body, violations);
  const parallelToolCalls = violations.flag(body['parallel_tool_calls'], 'parallel_tool_calls');
  const user = body['user'] ?? body['safety_identifier'];
  const optional = {
    parallelToolCalls,
    maxTokens,
    temperature: readNumber('temperature', 0, 2),
    topP: readNumber('top_p', 0, 1),
    presencePenalty: readNumber('presence_penalty', -2, 2),
    frequencyPenalty: readNumber('frequency_penalty', -2, 2),
    topLogprobs,
    reasoning,
    user: typeof user === 'string' ? user : undefined,
  };
  violations.throwIfAny();
  return { messages, ...tools, stop: [], format, ...omitNullish(optional) };
}

/** Log probabilities are requested by `include`, or by `top_logprobs`, which sets the number of alternatives. */
function readTopLogprobs(body: ClientRequest['body'], violations: Violations): number | undefined {
  const bounds = { min: 0, max: 20, isInteger: true } as const;
  const top = violations.number(body['top_logprobs'], 'top_logprobs', bounds);
  const isRequested = violations.list(body['include'], 'include').includes('message.output_text.logprobs');
  return isRequested ? (top ?? 0) : top || undefined;
}
