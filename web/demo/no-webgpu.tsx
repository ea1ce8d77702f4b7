import { Button, Facts, Panel } from '../console/parts/index.tsx';
import css from './demo.module.css';
import type { Lack } from './support.ts';

function Insecure() {
  const port = location.port === '' ? '80' : location.port;
  return (
    <Panel title="This page came over plain http">
      <p>
        Browsers give WebGPU only to pages that nobody could have changed on their way: those over https, and
        those of this machine. This one came from <code>{location.origin}</code>. One of these helps:
      </p>
      <ul className={css['list']}>
        <li>
          On the machine that serves it, open{' '}
          <code>
            http://localhost:{port}
            {location.pathname}
          </code>
          .
        </li>
        <li>
          From another machine, bring its port to yours:{' '}
          <code>
            ssh -L {port}:localhost:{port} {location.hostname}
          </code>
          , then open{' '}
          <code>
            http://localhost:{port}
            {location.pathname}
          </code>
          .
        </li>
        <li>Put the server behind https, for example behind a proxy with a certificate.</li>
        <li>
          For a trial in Chrome or Edge, add <code>{location.origin}</code> at{' '}
          <code>chrome://flags/#unsafely-treat-insecure-origin-as-secure</code>.
        </li>
      </ul>
    </Panel>
  );
}

/** As told by the browsers' makers in April 2026. */
const browsers: readonly (readonly [name: string, since: string])[] = [
  ['Chrome, Edge', 'Windows (x86), macOS and ChromeOS since 113; Android 12 and later since 121'],
  ['Chrome on Linux', 'Intel (Gen12 and later) since 144, NVIDIA since 147; others with a flag'],
  ['Safari', 'macOS, iOS, iPadOS and visionOS since 26'],
  ['Firefox', 'Windows since 141, macOS on Apple silicon since 145 to 147; elsewhere in Nightly'],
];

function Missing() {
  return (
    <>
      <Panel title="Browsers that have WebGPU">
        <Facts facts={browsers} />
      </Panel>
      <Panel title="Your browser is one of these?">
        <ul className={css['list']}>
          <li>
            Switch on hardware acceleration in its settings, update the graphics driver, and restart it.
          </li>
          <li>
            Chrome and Edge: <code>chrome://gpu</code> says whether WebGPU is on and why not. On Linux, and on
            Windows with an ARM processor, set <code>chrome://flags/#enable-unsafe-webgpu</code> to Enabled;
            on Linux it may also need <code>--enable-features=Vulkan</code>.
          </li>
          <li>
            Firefox: in <code>about:config</code>, set <code>dom.webgpu.enabled</code> to true.
          </li>
          <li>
            Safari before 26: Settings, Feature Flags, WebGPU (on an iPhone: Settings, Apps, Safari,
            Advanced).
          </li>
          <li>A virtual machine or a remote desktop often has no GPU to offer.</li>
        </ul>
      </Panel>
    </>
  );
}

const reasons: Readonly<Record<Lack, string>> = {
  insecure: 'the browser keeps WebGPU from this page, because it is not secure.',
  missing: 'this browser does not offer WebGPU, the interface to the GPU that the model runs on.',
  no_adapter: 'this browser has WebGPU, but found no GPU for it.',
};

/** In place of the demo where there is no WebGPU for it. */
export function NoWebGpu({ lack, retry }: { lack: Lack; retry?: () => void }) {
  return (
    <section className={css['missing']} role="alert" aria-label="No WebGPU">
      <p>
        <strong>The demo cannot run here: </strong>
        {reasons[lack]}
      </p>
      {retry && (
        <p>
          <Button onClick={retry}>Try again</Button>
        </p>
      )}
      {lack === 'insecure' ? <Insecure /> : <Missing />}
    </section>
  );
}
