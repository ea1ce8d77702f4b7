import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { applyTheme } from '../ui/theme.ts';
import { App } from './shell/app.tsx';
import '../ui/styles/tokens.css';
import '../ui/styles/base.css';

applyTheme();
const queries = new QueryClient({
  // Without an answer, the banner asks until there is one; a refused request would be refused again.
  defaultOptions: { queries: { staleTime: 2000, retry: false } },
});
const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
