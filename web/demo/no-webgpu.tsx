import { Button, Facts, Panel } from '../ui/index.tsx';
import { browserAtHand } from './browser-at-hand.ts';
import css from './demo.module.css';
import type { WebGpuIssue } from './webgpu-issue.ts';
import { type BrowserGuide, guideOf, guides, stateOf, supportText } from './webgpu-support.ts';

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

function Guide({ guide }: { guide: BrowserGuide }) {
  return (
    <ul className={css['list']}>
      {guide.steps.map((step) => (
        <li key={step[0]}>
          {step.map((part, index) =>
            index % 2 === 0 ? (
              part
            ) : (
              <code key={part} className={css['url']}>
                {part}
              </code>
            ),
          )}
        </li>
      ))}
    </ul>
  );
}

function SupportTable({ guide }: { guide: BrowserGuide }) {
  return (
    <Facts
      facts={guide.support.map(({ platform, since, note }) => [
        platform,
        [since === undefined ? 'not in a release' : `since ${since}`, note]
          .filter((part) => part !== undefined)
          .join('; '),
      ])}
    />
  );
}

/** Instructions in the words of the browser at hand; those of the other browsers are folded. */
function WebGpuMissing() {
  const atHand = browserAtHand(navigator);
  const guide = atHand && guideOf(atHand.family);
  const version = atHand?.version === undefined ? '' : ` ${atHand.version}`;
  const platform = atHand?.platform === undefined ? '' : ` on ${atHand.platform}`;
  return (
    <>
      {atHand && guide && (
        <Panel title={`Your browser: ${guide.name}${version}${platform}`}>
          <p>{stateOf(atHand)}</p>
          <Guide guide={guide} />
          <p className={css['quiet']}>
            In every browser: update the graphics driver, and restart the browser. Virtual machines and remote
            desktops often have no GPU.
          </p>
        </Panel>
      )}
      <Panel title={guide ? 'Other browsers' : 'Browsers with WebGPU'}>
        {guides
          .filter((one) => one !== guide)
          .map((one) => (
            <details key={one.family} className={css['guide']}>
              <summary>
                {one.name} <span className={css['quiet']}>{supportText(one)}</span>
              </summary>
              <SupportTable guide={one} />
              <Guide guide={one} />
            </details>
          ))}
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
