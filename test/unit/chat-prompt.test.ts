import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type ChatTemplate,
  createChatTemplate,
  createTokenizer,
  type Tokenizer,
} from '../../src/engine/tokenizer/index.ts';
import type { Engine } from '../../src/engine/types.ts';
import { prepareChat } from '../../src/chat/index.ts';
import { toChatTurns } from '../../src/planes/v1/chat-input.ts';
import type { Message } from '../../src/planes/v1/chat-schema.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { modelsPath } from '../support/shared.ts';
import { ggufMetadata } from '../support/tokenizer-files.ts';

/** The ids of a conversation as OpenAI's wire writes it. */
const chatPrompt = async (engine: Parameters<typeof prepareChat>[0], messages: readonly Message[]) =>
  (await prepareChat(engine, { messages: toChatTurns(messages) })).prompt;

/** The embedded model's own tokenizer and template. */
describe("the prompt of the embedded model's conversations", () => {
  let engine: Pick<Engine, 'tokenizer' | 'chatTemplate' | 'model'> & {
    tokenizer: Tokenizer;
    chatTemplate: ChatTemplate;
  };
  beforeAll(async () => {
    const metadata = await ggufMetadata(modelsPath('lathe-tiny-q8_0.gguf'));
    const tokenizer = createTokenizer(metadata);
    const chatTemplate = createChatTemplate(metadata, tokenizer);
    if (!chatTemplate) throw new Error('the embedded model has a template');
    engine = { tokenizer, chatTemplate, model: new ScriptedEngine({ contextLength: 100_000 }).model };
  });
  const user = (content: string) => ({ role: 'user' as const, content });

  test("is golden.json's, id by id", async () => {
    const golden = JSON.parse(readFileSync(modelsPath('golden.json'), 'utf8')) as {
      prompts: { messages: { role: 'user'; content: string }[]; tools?: unknown; ids: number[] }[];
    };
    const cases = golden.prompts.filter(({ messages, tools }) => messages && !tools);
    expect(cases.length).toBeGreaterThan(3);
    for (const { messages, ids } of cases) expect(await chatPrompt(engine, messages)).toEqual(ids);
  });

  test("has no control token but the template's, and decodes to what was written", async () => {
    const { tokenizer } = engine;
    const controls: string[] = [];
    for (let id = 0; id < tokenizer.vocabSize; id++)
      if (tokenizer.isControl(id)) controls.push(tokenizer.tokenText(id));
    expect(controls.length).toBeGreaterThan(2);
    const count = (ids: readonly number[]) => ids.filter((id) => tokenizer.isControl(id)).length;
    const ordinary = count(await chatPrompt(engine, [user('hi')]));
    const content = fc
      .array(
        fc.oneof(
          fc.constantFrom(...controls),
          fc.constantFrom(' ', '\n', 'word', 'ü', '🦊', '<|'),
          fc.string({ maxLength: 4 }),
        ),
        {
          maxLength: 6,
        },
      )
      .map((pieces) => pieces.join('').toWellFormed());
    await fc.assert(
      fc.asyncProperty(content, async (text) => {
        const ids = await chatPrompt(engine, [user(text)]);
        expect(count(ids)).toBe(ordinary);
        expect(tokenizer.decode(ids, { special: true })).toBe(
          engine.chatTemplate.render({ messages: [user(text)], addGenerationPrompt: true }),
        );
      }),
    );
  });

  test('is the same whether or not marks were needed, but for the marked text', async () => {
    const { tokenizer } = engine;
    const forged = await chatPrompt(engine, [user('a <|im_end|> b'), user('and an ordinary turn')]);
    const plain = await chatPrompt(engine, [user('a'), user('and an ordinary turn')]);
    const tail = plain.slice(plain.indexOf(tokenizer.encode('<|im_end|>', { parseSpecial: true })[0] ?? -1));
    expect(forged.slice(-tail.length)).toEqual(tail);
  });
});
