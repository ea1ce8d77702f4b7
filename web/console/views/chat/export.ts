import { pathOf } from '../../../chat/tree.ts';
import type { ChatConversation } from './answer.ts';

/** A conversation as JSON: all versions, without the probabilities of tokens. Turns are numbered from 1. */
export function exportJson({ id, title, system, turns, chosen, updatedAt }: ChatConversation): string {
  const numbers = new Map(turns.map((turn, index) => [turn.id, index + 1]));
  const numberOf = (turnId: number): number => numbers.get(turnId) ?? 0;
  const exported = {
    format: 'lathe-chat-1',
    id,
    title,
    updated_at: new Date(updatedAt).toISOString(),
    system,
    turns: turns.map((turn) => {
      const { id: turnId, parent, role, text } = turn;
      const common = { id: numberOf(turnId), parent: numberOf(parent), role, content: text };
      if (turn.role === 'user')
        return turn.toolResults ? { ...common, tool_results: turn.toolResults } : common;
      const { reasoning, toolCalls, state, finishReason, model, settings, usage } = turn;
      return {
        ...common,
        ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
        state,
        finish_reason: finishReason ?? null,
        model: model ?? null,
        settings,
        usage: usage ?? null,
      };
    }),
    chosen: Object.fromEntries(
      Object.entries(chosen).map(([parent, shown]) => [numberOf(Number(parent)), numberOf(shown)]),
    ),
  };
  return `${JSON.stringify(exported, undefined, 2)}\n`;
}

/** The shown path of a conversation as Markdown. */
export function exportMarkdown(conversation: ChatConversation): string {
  const { title, system } = conversation;
  const parts = [`# ${title}`];
  if (system.trim() !== '') parts.push('## System', system);
  for (const turn of pathOf(conversation)) {
    if (turn.role === 'user' && turn.toolResults) {
      for (const { name, content } of turn.toolResults) parts.push(`## Tool result of \`${name}\``, content);
      continue;
    }
    parts.push(turn.role === 'user' ? '## User' : '## Assistant');
    if (turn.text !== '') parts.push(turn.text);
    if (turn.role === 'assistant')
      for (const { name, arguments: text } of turn.toolCalls)
        parts.push(`Tool call \`${name}\`:`, `\`\`\`json\n${text}\n\`\`\``);
  }
  return `${parts.join('\n\n')}\n`;
}

/** Saves a text as a file of the user. */
export function saveFile(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** A file name from a title. */
export const fileNameOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60) || 'chat';
