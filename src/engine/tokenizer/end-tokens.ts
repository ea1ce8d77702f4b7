import { endOfFileTokenTexts } from './fill-in-the-middle.ts';

/**
 * Texts of the tokens that end a response, for known model families. Files name one EOS token, but chat models often
 * use another one, so tokens with these texts count too. llama.cpp uses the same list.
 */
export const endTokenTexts: readonly string[] = [
  '<|eot_id|>', // Llama 3
  '<|im_end|>', // ChatML
  '<|end|>', // Phi-3
  '<|return|>', // gpt-oss
  '<|call|>',
  '<|flush|>', // Solar
  '<|calls|>',
  '<end_of_turn>', // Gemma
  '<|endoftext|>',
  '</s>',
  '<|eom_id|>', // Llama 3 tool calls
  '<EOT>',
  '_<EOT>',
  '[EOT]', // Kimi
  '[EOS]',
  '<|end_of_text|>', // Granite
  '<end_of_utterance>', // SmolDocling
  '<eos>', // Gemma
  '<turn|>', // Gemma 4
  '<|tool_response>',
  '<｜end▁of▁sentence｜>', // DeepSeek
  '[e~[', // MiniMax
];

/**
 * Finds all tokens that end a response.
 * @param declaredIds end tokens from the metadata
 */
export function findEndTokens(
  ids: ReadonlyMap<string, number>,
  declaredIds: readonly (number | undefined)[],
): ReadonlySet<number> {
  const ends = new Set<number>();
  for (const id of declaredIds) if (id !== undefined) ends.add(id);
  const has = (name: string) => ids.has(name);
  for (const name of [...endTokenTexts, ...endOfFileTokenTexts]) {
    const id = ids.get(name);
    if (id !== undefined) ends.add(id);
  }
  const removeEnd = (name: string) => {
    const id = ids.get(name);
    if (id !== undefined) ends.delete(id);
  };
  // In gpt-oss and Solar, `<|end|>` ends one message of a response that continues.
  if (
    (has('<|return|>') && (has('<|call|>') || has('<|calls|>'))) ||
    (has('<|flush|>') && has('<|calls|>'))
  ) {
    removeEnd('<|end|>');
  }
  // In Gemma 4, `</s>` is the HTML tag.
  if (has('<|tool_response>')) removeEnd('</s>');
  return ends;
}
