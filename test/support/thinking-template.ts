import type { ChatTemplate } from '../../src/engine/tokenizer/types.ts';

/** ChatML of a model that thinks between marks. */
export const thinkingTemplate: ChatTemplate = {
  source: '<think></think>',
  render: ({ messages, addGenerationPrompt }) =>
    messages.map(({ role, content }) => `<|im_start|>${role}\n${String(content)}<|im_end|>\n`).join('') +
    (addGenerationPrompt ? '<|im_start|>assistant\n' : ''),
};
