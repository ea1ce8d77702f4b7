import { isRecord, type Json } from '../../util/json.ts';
import { unsupported } from '../core/error.ts';
import type { Conversation, Tool } from '../core/conversation.ts';
import { budgetOf, levelsOf, nearestEffort } from '../core/effort.ts';
import type { UpstreamOptions } from '../core/wire.ts';
import { writeContents } from './contents.ts';
import { reduceSchema } from './schema.ts';

/** Writes a conversation as a Gemini request. @throws WireError 400 for content that Google does not support */
export function writeRequestBody(conversation: Conversation, options: UpstreamOptions): Json {
  const { tools, toolChoice, parallelToolCalls, webSearch } = conversation;
  if (parallelToolCalls === false && tools.length > 0 && toolChoice !== 'none')
    throw unsupported(
      'parallel_tool_calls',
      `${options.model.id} always allows several tool calls per answer; leave parallel_tool_calls out.`,
    );
  return {
    ...writeContents(conversation.messages, hasThinkingLevels(options)),
    ...(tools.length === 0 && !webSearch
      ? {}
      : {
          tools: [
            ...(tools.length === 0 ? [] : [{ functionDeclarations: tools.map(writeFunctionDeclaration) }]),
            ...(webSearch ? [{ googleSearch: {} }] : []),
          ],
          ...(tools.length === 0 ? {} : toolConfig(toolChoice)),
        }),
    generationConfig: generationConfig(conversation, options),
  };
}

/**
 * Whether the model has thinking levels. These are the models from the third generation on, which also require their
 * signatures back.
 */
const hasThinkingLevels = ({ model }: UpstreamOptions): boolean => levelsOf(model).length > 0;

function writeFunctionDeclaration({ name, description, parameters }: Tool): Json {
  const { properties } = parameters;
  const hasNoProperties = isRecord(properties) && Object.keys(properties).length === 0;
  const hasNoParameters = Object.keys(parameters).length === 0 || hasNoProperties;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(hasNoParameters ? {} : { parametersJsonSchema: reduceSchema(parameters) }),
  };
}

function toolConfig(choice: Conversation['toolChoice']): Json {
  if (choice === undefined) return {};
  const modes = { auto: 'AUTO', none: 'NONE', required: 'ANY' };
  const config =
    typeof choice === 'string'
      ? { mode: modes[choice] }
      : { mode: 'ANY', allowedFunctionNames: [choice.name] };
  return { toolConfig: { functionCallingConfig: config } };
}

function generationConfig(conversation: Conversation, options: UpstreamOptions): Json {
  const { stop, seed, topLogprobs } = conversation;
  const config = {
    maxOutputTokens: options.maxTokens,
    temperature: conversation.temperature,
    topP: conversation.topP,
    topK: conversation.topK,
    // Google's seeds have 32 bits.
    seed: seed === undefined ? undefined : Number(BigInt.asIntN(32, BigInt(Math.trunc(seed)))),
    presencePenalty: conversation.presencePenalty,
    frequencyPenalty: conversation.frequencyPenalty,
    stopSequences: stop.length > 0 ? stop : undefined,
    responseLogprobs: topLogprobs === undefined ? undefined : true,
    logprobs: topLogprobs === undefined || topLogprobs === 0 ? undefined : topLogprobs,
    ...writeFormatConfig(conversation.format),
    thinkingConfig: thinkingConfig(conversation.reasoning, options),
  };
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
}

function writeFormatConfig(format: Conversation['format']): Json {
  if (format.type === 'text') return {};
  const json = { responseMimeType: 'application/json' };
  return format.type === 'json' ? json : { ...json, responseJsonSchema: reduceSchema(format.schema) };
}

/**
 * A thinking level where the model has levels, else a budget within `maxTokens`, which includes thinking. Never both.
 */
function thinkingConfig(reasoning: Conversation['reasoning'], options: UpstreamOptions): Json | undefined {
  const { model, maxTokens } = options;
  if (reasoning === undefined || !model.caps.has('reasoning')) return undefined;
  const { effort, maxTokens: requestedTokens } = reasoning;
  if (effort !== undefined && hasThinkingLevels(options)) {
    const level = nearestEffort(effort, levelsOf(model));
    return level === 'none' ? thinkingDisabled : { thinkingLevel: level, includeThoughts: effort !== 'none' };
  }
  if (requestedTokens === undefined && effort === undefined) return { includeThoughts: true };
  const budget =
    requestedTokens !== undefined
      ? Math.min(requestedTokens, maxTokens)
      : clampBudget(budgetOf(effort ?? 'medium', maxTokens));
  return budget === 0 ? thinkingDisabled : { thinkingBudget: budget, includeThoughts: true };
}

const thinkingDisabled = { thinkingBudget: 0, includeThoughts: false };

/** The budget range that all models with budgets accept; they refuse others. */
const clampBudget = (budget: number): number => (budget === 0 ? 0 : Math.min(Math.max(budget, 512), 24_576));
