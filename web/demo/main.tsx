import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { applyTheme } from '../ui/theme.ts';
import '../ui/styles/tokens.css';
import '../ui/styles/base.css';
import { App } from './app.tsx';
import { History } from '../chat/history.ts';
import { createChat } from './create-chat.ts';
import { createConversations, revivedTurn, type Turn } from './conversation.ts';
import { createLoader } from './loader.ts';
import { webGpuIssue } from './webgpu-issue.ts';

applyTheme();
const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root');
const history = new History<Turn>({
  name: 'lathe-demo',
  optOutKey: 'lathe-demo-history',
  storable: (turn) => turn,
  revived: revivedTurn,
});
createRoot(root).render(
  <StrictMode>
    <App
      loader={createLoader(createChat)}
      chats={createConversations(history)}
      webGpuIssue={webGpuIssue(window)}
    />
  </StrictMode>,
);
