import type { ChatInput, PreparedChat } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { ModelDefaults } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { prepare } from '../turn/chat.ts';
import { refuseOverlong, requireTokens } from '../turn/encode.ts';
import { fimPrompt } from '../turn/fim.ts';
import type { GenerateRequest } from '../../wires/ollama/generate-schema.ts';
import { toGrammar } from './options.ts';

/** Prepares the prompt of a request for the engine. */
export async function toPrepared(
  engine: Engine,
  body: GenerateRequest,
  defaults: ModelDefaults,
): Promise<PreparedChat> {
  refuseMixtures(body);
  if (body.suffix) return fillIn(engine, body, body.suffix);
  if (body.raw) return await rawText(engine, body);
  const system = body.system || defaults.system;
  const input: ChatInput = {
    messages: [
      ...(system ? [{ role: 'system' as const, content: system }] : []),
      { role: 'user', content: body.prompt ?? '' },
    ],
    ...outputOf(body),
    ...(body.think === null || body.think === undefined ? {} : { thinking: body.think }),
  };
  const { context } = body;
  if (!context || context.length === 0) return await prepare(engine, input);
  return await goOn(engine, input, context);
}

function refuseMixtures({ raw, suffix, context, system }: GenerateRequest): void {
  const wrong: { path: string; message: string }[] = [];
  const later = context !== null && context !== undefined && context.length > 0;
  const refuse = (path: string, message: string) => wrong.push({ path, message });
  if (suffix && later) refuse('context', 'cannot be combined with `suffix`; leave one of them out');
  if (suffix && system) refuse('system', 'cannot be combined with `suffix`; leave one of them out');
  if (raw && system) refuse('system', 'cannot be combined with `raw`; write it into the prompt');
  if (wrong.length > 0) throw invalidBody(wrong);
}

const outputOf = ({ format }: GenerateRequest) => {
  const output = toGrammar(format);
  return output ? { output } : {};
};

/** A prompt without a chat template. */
const plain = (body: GenerateRequest, prompt: readonly number[]): PreparedChat => ({
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

function fillIn(engine: Engine, body: GenerateRequest, suffix: string): PreparedChat {
  const wanted = body.options?.num_predict;
  const answer = typeof wanted === 'number' && wanted > 0 ? wanted : undefined;
  return plain(body, fimPrompt(engine, { prefix: body.prompt ?? '', suffix }, answer));
}

/** Special tokens in the text are parsed, because clients of `raw` write the template's markup themselves. */
async function rawText(engine: Engine, body: GenerateRequest): Promise<PreparedChat> {
  const { tokenizer, model } = engine;
  const text = body.prompt ?? '';
  const before = requireTokens(tokenizer, body.context ?? [], 'context');
  await refuseOverlong(tokenizer, text, model.contextLength, 'prompt', { parseSpecial: true });
  const own = tokenizer.bosId !== undefined && text.startsWith(tokenizer.tokenText(tokenizer.bosId));
  const addSpecial = before.length === 0 && !own;
  return plain(body, [...before, ...tokenizer.encode(text, { parseSpecial: true, addSpecial })]);
}

/** Placeholders for a past question and answer. */
const past = { question: 'q', answer: 'a' };

/**
 * Prepares the next turn of a conversation that is only known by its tokens. What the template writes between an answer
 * and the next turn is found by rendering a conversation with and without that turn.
 */
async function goOn(engine: Engine, input: ChatInput, context: readonly number[]): Promise<PreparedChat> {
  const before = requireTokens(engine.tokenizer, context, 'context');
  const said = [
    { role: 'user' as const, content: past.question },
    { role: 'assistant' as const, content: past.answer },
  ];
  const whole = await prepare(engine, { ...input, messages: [...said, ...input.messages] });
  const open = await prepare(engine, { ...input, messages: said, continueLast: true });
  const begins = open.prompt.every((id, index) => whole.prompt[index] === id);
  if (!begins || open.prompt.length >= whole.prompt.length) {
    const message =
      "this model's template cannot go on from a context; send the conversation to POST /api/chat";
    throw new HttpError(400, 'unsupported_parameter', `context: ${message}`, { param: 'context' });
  }
  return { ...whole, prompt: [...before, ...whole.prompt.slice(open.prompt.length)] };
}
