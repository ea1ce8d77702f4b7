import { readFileSync } from 'node:fs';
import { createChatTemplate, createTokenizer } from '../../src/engine/tokenizer/index.ts';
import type { ChatTemplate } from '../../src/engine/tokenizer/types.ts';
import { ScriptedEngine } from './scripted-engine.ts';
import { bpeMetadata, readJson } from './tokenizer-files.ts';

/** A tokenizer without merges: conversations of real templates are compared as texts. */
export const tokenizer = createTokenizer(
  bpeMetadata({
    pre: 'default',
    vocabulary: { a: 0 },
    merges: ['a a'],
    special: { '<s>': 1, '</s>': 2 },
    more: { bos_token_id: 1, eos_token_id: 2 },
  }),
);
export const { model } = new ScriptedEngine({ contextLength: 1_000_000 });

/** Every template that the golden renderings are of, by its name. @param path of golden-chat.json */
export function realTemplates(path: string): (readonly [name: string, template: ChatTemplate])[] {
  const golden = readJson(path) as { templates: { template: string }[] };
  return golden.templates.map(({ template }) => {
    const name = template.replace(/^.*\//, '').replace(/\.jinja2?$/, '');
    const source = readFileSync(path.replace('golden-chat.json', template), 'utf8');
    const made = createChatTemplate(new Map([['tokenizer.chat_template', source]]), tokenizer);
    return [name, made as ChatTemplate] as const;
  });
}
