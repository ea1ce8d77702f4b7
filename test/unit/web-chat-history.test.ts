import { describe, expect, it } from 'vitest';
import {
  asReceived,
  asStopped,
  mergeConversations,
  nextTurnId,
  otherTab,
  pageClosed,
} from '../../web/chat/merge.ts';
import type { Answer, Conversation, Message } from '../../web/chat/tree.ts';

type Turn = Message | Answer;
const message = (id: number, parent: number, text: string): Message => ({ id, parent, role: 'user', text });
const answer = (id: number, parent: number, text: string, change: Partial<Answer> = {}): Answer => ({
  id,
  parent,
  role: 'assistant',
  text,
  state: 'done',
  ...change,
});
const conversation = (
  turns: readonly Turn[],
  change: Partial<Conversation<Turn>> = {},
): Conversation<Turn> => ({
  id: 'a',
  title: 'Title',
  system: '',
  turns,
  chosen: {},
  updatedAt: 1,
  ...change,
});

describe('a chat that two tabs change', () => {
  const common = [message(1, 0, 'one'), answer(2, 1, 'A')];

  it('has the turns of both, each after its parent', () => {
    const ours = conversation([...common, message(50, 2, 'ours'), answer(51, 50, 'B')], { updatedAt: 5 });
    const theirs = conversation([...common, message(40, 2, 'theirs'), answer(41, 40, 'C')], {
      title: 'Renamed',
      updatedAt: 9,
    });
    const merged = mergeConversations(ours, theirs);
    expect(merged.turns.map(({ id }) => id)).toEqual([1, 2, 40, 41, 50, 51]);
    expect(merged).toMatchObject({ title: 'Title', updatedAt: 9 });
  });

  it('has the longer copy of an answer, and does not lose its end', () => {
    const growing = answer(2, 1, 'Once', { state: 'stopped', finishReason: otherTab });
    const done = answer(2, 1, 'Once upon', { finishReason: 'stop' });
    expect(mergeConversations(conversation([growing]), conversation([done])).turns).toEqual([done]);
    expect(mergeConversations(conversation([done]), conversation([growing])).turns).toEqual([done]);
    const stopped = answer(2, 1, 'Once', { state: 'stopped' });
    expect(mergeConversations(conversation([growing]), conversation([stopped])).turns).toEqual([stopped]);
  });

  it('does not have the turns again that one of them removed', () => {
    const failed = answer(2, 1, '', { state: 'failed' });
    const ours = conversation([message(1, 0, 'one'), answer(9, 1, 'A')], { removed: [2] });
    const merged = mergeConversations(ours, conversation([message(1, 0, 'one'), failed]));
    expect(merged.turns.map(({ id }) => id)).toEqual([1, 9]);
    expect(mergeConversations(conversation([message(1, 0, 'one'), failed]), merged).turns).toHaveLength(2);
  });

  it('keeps the shown versions of this tab, and those of the other where this one chose none', () => {
    const ours = conversation(common, { chosen: { 0: 1 } });
    const theirs = conversation(common, { chosen: { 0: 7, 1: 2 } });
    expect(mergeConversations(ours, theirs).chosen).toEqual({ 0: 1, 1: 2 });
  });

  it('gives turns ids that the tabs do not share', () => {
    const ids = new Set(Array.from({ length: 100 }, () => nextTurnId(conversation(common))));
    expect(ids.size).toBeGreaterThan(95);
    const last = Math.max(...ids);
    expect(nextTurnId(conversation([message(last, 0, 'x')]))).toBeGreaterThan(last);
  });

  it('shows an answer that another tab receives as such, and stores it as growing', () => {
    const growing = answer(2, 1, 'Once', { state: 'writing' });
    const shown = asStopped<Answer>(growing, otherTab);
    expect(shown).toMatchObject({ state: 'stopped', finishReason: otherTab });
    expect(asReceived<Answer>(shown)).toEqual(growing);
    expect(asReceived<Answer>(asStopped<Answer>(growing, pageClosed)).state).toBe('stopped');
  });
});
