import type { ChatInput, PreparedChat } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { ModelDefaults } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { preparePrompt } from '../turn/chat.ts';
import { refuseOverlong, requireKnownTokens } from '../turn/encode.ts';
import { buildFimPrompt } from '../turn/fim.ts';
import type { GenerateRequest } from '../../wires/ollama/generate-schema.ts';
import { toGrammar } from './options.ts';

/** Prepares the prompt of a request for the engine. */
export async function preparePromptFor(
  engine: Engine,
  body: GenerateRequest,
  defaults: ModelDefaults,
): Promise<PreparedChat> {
  refuseConflicts(body);
  if (body.suffix) return prepareFillInTheMiddle(engine, body, body.suffix);
  if (body.raw) return await prepareRawText(engine, body);
  const system = body.system || defaults.system;
  const input: ChatInput = {
    messages: [
      ...(system ? [{ role: 'system' as const, content: system }] : []),
      { role: 'user', content: body.prompt ?? '' },
    ],
    ...outputMember(body),
    ...(body.think === null || body.think === undefined ? {} : { thinking: body.think }),
  };
  const { context } = body;
  if (!context || context.length === 0) return await preparePrompt(engine, input);
  return await continueFromContext(engine, input, context);
}

function refuseConflicts({ raw, suffix, context, system }: GenerateRequest): void {
  const violations: { path: string; message: string }[] = [];
  const hasContext = context !== null && context !== undefined && context.length > 0;
  const addViolation = (path: string, message: string) => violations.push({ path, message });
  if (suffix && hasContext)
    addViolation('context', 'cannot be combined with `suffix`; leave one of them out');
  if (suffix && system) addViolation('system', 'cannot be combined with `suffix`; leave one of them out');
  if (raw && system) addViolation('system', 'cannot be combined with `raw`; write it into the prompt');
  if (violations.length > 0) throw invalidBodyError(violations);
}

const outputMember = ({ format }: GenerateRequest) => {
  const output = toGrammar(format);
  return output ? { output } : {};
};

/** A prompt without a chat template. */
const toPlainPrompt = (body: GenerateRequest, prompt: readonly number[]): PreparedChat => ({
  prompt,
  text: body.prompt ?? '',
  grammar: toGrammar(body.format),
  visible: new Set(),
  stop: [],
  parser: () => ({
    push: (text) => (text === '' ? [] : [{ type: 'content', text }]),
    end: () => [],
  }),
});

function prepareFillInTheMiddle(engine: Engine, body: GenerateRequest, suffix: string): PreparedChat {
  const requestedTokens = body.options?.num_predict;
  const answer = typeof requestedTokens === 'number' && requestedTokens > 0 ? requestedTokens : undefined;
  return toPlainPrompt(body, buildFimPrompt(engine, { prefix: body.prompt ?? '', suffix }, answer));
}

/** Special tokens in the text are parsed, because clients of `raw` write the template's markup themselves. */
async function prepareRawText(engine: Engine, body: GenerateRequest): Promise<PreparedChat> {
  const { tokenizer, model } = engine;
  const text = body.prompt ?? '';
  const contextIds = requireKnownTokens(tokenizer, body.context ?? [], 'context');
  await refuseOverlong(tokenizer, text, model.contextLength, 'prompt', { parseSpecial: true });
  const hasBosText = tokenizer.bosId !== undefined && text.startsWith(tokenizer.tokenText(tokenizer.bosId));
  const addSpecial = contextIds.length === 0 && !hasBosText;
  return toPlainPrompt(body, [...contextIds, ...tokenizer.encode(text, { parseSpecial: true, addSpecial })]);
}

/** Placeholders for a past question and answer. */
const placeholderTurn = { question: 'q', answer: 'a' };

/**
 * Prepares the next turn of a conversation that is only known by its tokens. What the template writes between an answer
 * and the next turn is found by rendering a conversation with and without that turn.
 */
async function continueFromContext(
  engine: Engine,
  input: ChatInput,
  context: readonly number[],
): Promise<PreparedChat> {
  const contextIds = requireKnownTokens(engine.tokenizer, context, 'context');
  const pastTurns = [
    { role: 'user' as const, content: placeholderTurn.question },
    { role: 'assistant' as const, content: placeholderTurn.answer },
  ];
  const withNextTurn = await preparePrompt(engine, { ...input, messages: [...pastTurns, ...input.messages] });
  const withoutNextTurn = await preparePrompt(engine, { ...input, messages: pastTurns, continueLast: true });
  const isPrefix = withoutNextTurn.prompt.every((id, index) => withNextTurn.prompt[index] === id);
  if (!isPrefix || withoutNextTurn.prompt.length >= withNextTurn.prompt.length) {
    const message =
      "this model's template cannot go on from a context; send the conversation to POST /api/chat";
    throw new HttpError(400, 'unsupported_parameter', `context: ${message}`, { param: 'context' });
  }
  return {
    ...withNextTurn,
    prompt: [...contextIds, ...withNextTurn.prompt.slice(withoutNextTurn.prompt.length)],
  };
}
