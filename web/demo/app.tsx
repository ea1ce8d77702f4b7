import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { ChatPanel } from './chat-panel.tsx';
import { ComparePanel } from './compare-panel.tsx';
import { isBusy as isBusyNow, useChatsState } from '../chat/chats.ts';
import { ChatsPanel } from './chats-panel.tsx';
import type { Conversations } from './conversation.ts';
import css from './demo.module.css';
import { DevicePanel } from './device-panel.tsx';
import { DropZone } from './drop-zone.tsx';
import { isStaticSite } from './is-static-site.ts';
import { latheBackend } from './lathe-backend.ts';
import { LoadStatus } from './load-status.tsx';
import { embeddedSource, type Loader, type Source } from './loader.ts';
import { ModelPanel } from './model-panel.tsx';
import { resolveModelUrl } from './model-url.ts';
import { NoWebGpu } from './no-webgpu.tsx';
import { saveForOffline } from './offline.ts';
import { OfflineNote } from './offline-note.tsx';
import { SamplingPanel } from './sampling-panel.tsx';
import { useShownChat } from './shown-chat.ts';
import type { WebGpuIssue } from './webgpu-issue.ts';
import { useSettings } from './use-settings.ts';
import type { WebLlm } from './web-llm/client.ts';

function Demo({ loader, chats }: { loader: Loader; chats: Conversations }) {
  const [settings, changeSettings] = useSettings();
  const loadState = useSyncExternalStore(loader.store.subscribe, loader.store.get);
  const { conversations } = useChatsState(chats);
  const { shown, show } = useShownChat(chats);
  const isBusy = conversations.some(isBusyNow);
  const [webLlm, setWebLlm] = useState<WebLlm>();
  const webLlmState = useSyncExternalStore(
    useCallback((listener) => webLlm?.state.subscribe(listener) ?? (() => {}), [webLlm]),
    () => webLlm?.state.get(),
  );
  const chat = loadState.phase === 'ready' ? loadState.chat : undefined;

  const load = useCallback(
    (requested: Source) => {
      const source: Source =
        requested.from === 'url'
          ? { from: 'url', url: resolveModelUrl(requested.url, location.href) }
          : requested;
      for (const { id } of chats.get().conversations) chats.stop(id);
      changeSettings({ model: source.from === 'url' ? source.url : '' });
      void loader.load(source);
    },
    [chats, loader, changeSettings],
  );
  const onFiles = useCallback((files: readonly File[]) => load({ from: 'files', files }), [load]);

  const hasModelUrl = settings.model !== '';
  useEffect(() => {
    // Only the embedded model loads automatically: it is small and comes from this page's server.
    if (loader.store.get().phase === 'none' && !hasModelUrl) void loader.load(embeddedSource);
  }, [loader, hasModelUrl]);

  const isReady = chat !== undefined;
  useEffect(() => {
    // Not before: the downloads would compete with those of the model.
    if (isReady) void saveForOffline();
  }, [isReady]);

  const backends = useMemo(() => {
    if (!chat) return [];
    return [latheBackend(chat), ...(webLlmState?.phase === 'ready' ? [webLlmState.backend] : [])];
  }, [chat, webLlmState]);

  const code = loadState.phase === 'failed' ? loadState.failure.code : undefined;
  if (loadState.phase === 'failed' && (code === 'no_adapter' || code === 'no_webgpu'))
    return (
      <NoWebGpu
        issue={code === 'no_adapter' ? 'no_adapter' : 'missing'}
        retry={() => load(loadState.source)}
      />
    );
  return (
    <div className={css['columns']}>
      <ChatPanel
        {...{ chats, shown, show }}
        settings={settings}
        backends={backends}
        isEmbedded={!hasModelUrl && (loadState.phase === 'none' || loadState.source.from === 'embedded')}
        device={chat?.device}
        status={
          <LoadStatus
            loadState={loadState}
            load={load}
            cancel={() => loader.cancel()}
            offeredUrl={hasModelUrl ? settings.model : undefined}
          />
        }
      />
      <div className={css['side']}>
        <ChatsPanel chats={chats} shownId={shown.id} show={show} />
        <ModelPanel loadState={loadState} load={load} model={settings.model} />
        {chat && <DevicePanel chat={chat} />}
        <SamplingPanel settings={settings} change={changeSettings} />
        <ComparePanel
          webLlm={webLlm}
          onToggle={setWebLlm}
          isBusy={isBusy}
          features={chat?.device.features}
          chosen={settings.webLlm}
          choose={(id) => changeSettings({ webLlm: id })}
          loadInLathe={(url) => load({ from: 'url', url })}
        />
      </div>
      <DropZone onFiles={onFiles} />
    </div>
  );
}

/** The console of the host that serves this page; a static site has none. */
const consoleUrl = isStaticSite ? undefined : '../console';

export function App(props: { loader: Loader; chats: Conversations; webGpuIssue: WebGpuIssue | undefined }) {
  const { webGpuIssue, ...rest } = props;
  return (
    <main className={css['page']}>
      <header className={css['head']}>
        <h1>lathe in the browser</h1>
        <p>
          This page runs a language model on your own GPU, with WebGPU and the same kernels as the lathe host.
          The model runs inside the page, and nothing that you write leaves it.
        </p>
        <p className={css['links']}>
          {consoleUrl !== undefined && <a href={consoleUrl}>Console</a>}
          <OfflineNote />
        </p>
      </header>
      {webGpuIssue === undefined ? <Demo {...rest} /> : <NoWebGpu issue={webGpuIssue} />}
    </main>
  );
}
