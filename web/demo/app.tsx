import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { ChatPanel } from './chat-panel.tsx';
import { ComparePanel } from './compare-panel.tsx';
import type { Conversation } from './conversation.ts';
import css from './demo.module.css';
import { DevicePanel } from './device-panel.tsx';
import { DropZone } from './drop-zone.tsx';
import { latheAnswerer } from './lathe-answerer.ts';
import { LoadStatus } from './load-status.tsx';
import { embedded, type Loader, type Source } from './loader.ts';
import { ModelPanel } from './model-panel.tsx';
import { resolvedModelUrl } from './model-url.ts';
import { NoWebGpu } from './no-webgpu.tsx';
import { SamplingPanel } from './sampling-panel.tsx';
import type { Lack } from './support.ts';
import { useSettings } from './use-settings.ts';
import type { WebLlm } from './web-llm/client.ts';

function Demo({ loader, conversation }: { loader: Loader; conversation: Conversation }) {
  const [settings, change] = useSettings();
  const loaded = useSyncExternalStore(loader.store.subscribe, loader.store.get);
  const { isBusy } = useSyncExternalStore(conversation.store.subscribe, conversation.store.get);
  const [webLlm, setWebLlm] = useState<WebLlm>();
  const compared = useSyncExternalStore(
    useCallback((listener) => webLlm?.state.subscribe(listener) ?? (() => {}), [webLlm]),
    () => webLlm?.state.get(),
  );
  const chat = loaded.phase === 'ready' ? loaded.chat : undefined;

  const load = useCallback(
    (wanted: Source) => {
      const source: Source =
        wanted.from === 'url' ? { from: 'url', url: resolvedModelUrl(wanted.url, location.href) } : wanted;
      conversation.stop();
      change({ model: source.from === 'url' ? source.url : '' });
      void loader.load(source);
    },
    [conversation, loader, change],
  );
  const take = useCallback((files: readonly File[]) => load({ from: 'files', files }), [load]);

  const isNamed = settings.model !== '';
  useEffect(() => {
    // Only the embedded model loads automatically: it is small and comes from this page's server.
    if (loader.store.get().phase === 'none' && !isNamed) void loader.load(embedded);
  }, [loader, isNamed]);

  const answerers = useMemo(() => {
    if (!chat) return [];
    return [latheAnswerer(chat), ...(compared?.phase === 'ready' ? [compared.answerer] : [])];
  }, [chat, compared]);

  const code = loaded.phase === 'failed' ? loaded.failure.code : undefined;
  if (loaded.phase === 'failed' && (code === 'no_adapter' || code === 'no_webgpu'))
    return (
      <NoWebGpu lack={code === 'no_adapter' ? 'no_adapter' : 'missing'} retry={() => load(loaded.source)} />
    );
  return (
    <div className={css['columns']}>
      <ChatPanel
        conversation={conversation}
        settings={settings}
        answerers={answerers}
        isEmbedded={!isNamed && (loaded.phase === 'none' || loaded.source.from === 'embedded')}
        device={chat?.device}
        status={
          <LoadStatus
            loaded={loaded}
            load={load}
            cancel={() => loader.cancel()}
            offered={isNamed ? settings.model : undefined}
          />
        }
      />
      <div className={css['side']}>
        <ModelPanel loaded={loaded} load={load} model={settings.model} />
        {chat && <DevicePanel chat={chat} />}
        <SamplingPanel settings={settings} change={change} />
        <ComparePanel
          webLlm={webLlm}
          open={setWebLlm}
          isBusy={isBusy}
          features={chat?.device.features}
          chosen={settings.webLlm}
          choose={(id) => change({ webLlm: id })}
          loadInLathe={(url) => load({ from: 'url', url })}
        />
      </div>
      <DropZone take={take} />
    </div>
  );
}

export function App(props: { loader: Loader; conversation: Conversation; lack: Lack | undefined }) {
  const { lack, ...rest } = props;
  return (
    <main className={css['page']}>
      <header className={css['head']}>
        <h1>lathe in the browser</h1>
        <p>
          This page runs a language model on your own GPU, with WebGPU and the same kernels as the lathe host.
          The model runs inside the page, and nothing that you write leaves it.
        </p>
      </header>
      {lack === undefined ? <Demo {...rest} /> : <NoWebGpu lack={lack} />}
    </main>
  );
}
