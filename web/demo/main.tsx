import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { applyTheme } from '../ui/theme.ts';
import '../ui/styles/tokens.css';
import '../ui/styles/base.css';
import { createChat } from '../engine/index.ts';
import { App } from './app.tsx';
import { createConversation } from './conversation.ts';
import { createLoader } from './loader.ts';
import { webGpuIssue } from './webgpu-issue.ts';

applyTheme();
const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root');
createRoot(root).render(
  <StrictMode>
    <App
      loader={createLoader(createChat)}
      conversation={createConversation()}
      webGpuIssue={webGpuIssue(window)}
    />
  </StrictMode>,
);
