import { Button, Facts, Panel } from '../ui/index.tsx';
import css from './demo.module.css';
import type { WebGpuIssue } from './webgpu-issue.ts';

function InsecureContext() {
  const port = location.port === '' ? '80' : location.port;
  return (
    <Panel title="This page was loaded over plain HTTP">
      <p>
        Browsers allow WebGPU only in secure contexts: pages over https, and pages from this machine. This
        page came from <code>{location.origin}</code>. Do one of the following:
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
          From another machine, forward its port:{' '}
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
        <li>Serve the page over https, for example through a proxy with a certificate.</li>
        <li>
          For a test in Chrome or Edge, add <code>{location.origin}</code> at{' '}
          <code>chrome://flags/#unsafely-treat-insecure-origin-as-secure</code>.
        </li>
      </ul>
    </Panel>
  );
}

/** As documented by the browser vendors in April 2026. */
const browserSupport: readonly (readonly [name: string, since: string])[] = [
  ['Chrome, Edge', 'Windows (x86), macOS and ChromeOS since 113; Android 12 and later since 121'],
  ['Chrome on Linux', 'Intel (Gen12 and later) since 144, NVIDIA since 147; others with a flag'],
  ['Safari', 'macOS, iOS, iPadOS and visionOS since 26'],
  ['Firefox', 'Windows since 141, macOS on Apple silicon since 145 to 147; elsewhere in Nightly'],
];

function WebGpuMissing() {
  return (
    <>
      <Panel title="Browsers with WebGPU">
        <Facts facts={browserSupport} />
      </Panel>
      <Panel title="If your browser is one of these">
        <ul className={css['list']}>
          <li>
            Turn on hardware acceleration in its settings, update the graphics driver, and restart the
            browser.
          </li>
          <li>
            Chrome and Edge: <code>chrome://gpu</code> shows whether WebGPU is on, and if not, why. On Linux,
            and on Windows with an ARM processor, set <code>chrome://flags/#enable-unsafe-webgpu</code> to
            Enabled; on Linux it may also need <code>--enable-features=Vulkan</code>.
          </li>
          <li>
            Firefox: in <code>about:config</code>, set <code>dom.webgpu.enabled</code> to true.
          </li>
          <li>
            Safari before 26: Settings, Feature Flags, WebGPU (on an iPhone: Settings, Apps, Safari,
            Advanced).
          </li>
          <li>Virtual machines and remote desktops often have no GPU.</li>
        </ul>
      </Panel>
    </>
  );
}

const issueTexts: Readonly<Record<WebGpuIssue, string>> = {
  insecure: 'the browser disables WebGPU on this page, because the page is not a secure context.',
  missing: 'this browser does not offer WebGPU, which the model needs to run on the GPU.',
  no_adapter: 'this browser has WebGPU, but found no GPU for it.',
};

/** Shown instead of the demo when WebGPU is not available. */
export function NoWebGpu({ issue, retry }: { issue: WebGpuIssue; retry?: () => void }) {
  return (
    <section className={css['missing']} role="alert" aria-label="No WebGPU">
      <p>
        <strong>The demo cannot run here: </strong>
        {issueTexts[issue]}
      </p>
      {retry && (
        <p>
          <Button onClick={retry}>Try again</Button>
        </p>
      )}
      {issue === 'insecure' ? <InsecureContext /> : <WebGpuMissing />}
    </section>
  );
}
