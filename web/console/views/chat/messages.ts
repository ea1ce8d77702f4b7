import type { Turn } from './answer.ts';

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** Messages of the request. Answers that failed before their first token are left out. */
export const messagesOf = (system: string, turns: readonly Turn[]): Message[] => [
  ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
  ...turns
    .filter((turn) => turn.role === 'user' || turn.text !== '')
    .map(({ role, text }) => ({ role, content: text })),
];
