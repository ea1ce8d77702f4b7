/** The name as the host expects it: a repository without a hub is one of Hugging Face. */
export function pullName(text: string): string {
  const name = text.trim();
  const isRepository = /^[\w.-]+\/[\w.-]+(?::|$)/.test(name);
  return isRepository && !/^(?:hf\.co|huggingface\.co)\//i.test(name) ? `hf.co/${name}` : name;
}
