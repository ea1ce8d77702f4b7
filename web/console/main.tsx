import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Fault } from '../api/fault.ts';
import { session } from '../api/session.ts';
import { App } from './shell/app.tsx';
import { keepQueriesLive } from './shell/live-queries.ts';
import { applyTheme } from '../ui/theme.ts';
import '../ui/styles/tokens.css';
import '../ui/styles/base.css';

applyTheme();
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // Only network failures (status 0) are retried; the host would refuse a refused request again.
      retry: (failures, error) => failures < 2 && error instanceof Fault && error.status === 0,
    },
    // What a person asks for fails at once, and is not sent when the host is back.
    mutations: { networkMode: 'always' },
  },
});
const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root');
// Views know at once whether protected data can be loaded.
await session.load();
keepQueriesLive(queries);
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
