import { useState } from 'react';
import { useChatsState } from '../chat/chats.ts';
import type { Conversation } from '../chat/tree.ts';
import type { Conversations, Turn } from './conversation.ts';

/** Session storage: id of the chat that this tab shows, or `new`. */
const key = 'lathe-demo-chat';

function savedId(): string | undefined {
  try {
    return sessionStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

function saveId(id: string): void {
  try {
    sessionStorage.setItem(key, id);
  } catch {
    // Storage is blocked: a reload shows the last chat.
  }
}

/** The chat that is shown: after a reload the same one, in a new tab the last one. */
export function useShownChat(chats: Conversations): {
  readonly shown: Conversation<Turn>;
  readonly show: (id: string | undefined) => void;
} {
  const { conversations, fresh } = useChatsState(chats);
  const [id, setId] = useState(savedId);
  const shown =
    id === 'new' ? fresh : (conversations.find((one) => one.id === id) ?? conversations[0] ?? fresh);
  return {
    shown,
    show(next = 'new') {
      saveId(next);
      setId(next);
    },
  };
}
