import { type Browser, chromium, type Page } from 'playwright-core';
import { chromiumPath } from '../../scripts/chromium.mjs';
import { watchRequests } from '../../web/page-idle.ts';

/** Why the browser tests are skipped; undefined if they run. */
export const noBrowser: string | undefined =
  chromiumPath() === undefined ? 'no Chromium here; npm run setup:services installs it' : undefined;

/** Limit of one wait for a page, which may have to compile shaders: long enough that only a hang reaches it. */
const limitMs = 300_000;

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  /** URL of the page. Requests to other origins are reported by `faults`. */
  readonly url: string;
}

/** A page, and its faults. */
export interface WatchedPage {
  readonly page: Page;
  /** Console errors, uncaught exceptions and requests to other origins since the last call. */
  readonly faults: () => string[];
  /** Resolves when the page has loaded and has no requests. */
  readonly idle: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Debian's Chromium, with WebGPU on its software adapter. */
export class TestBrowser {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** @param webgpu false: a browser without WebGPU */
  static async open({ webgpu = true } = {}): Promise<TestBrowser> {
    const executablePath = chromiumPath();
    if (executablePath === undefined) throw new Error(noBrowser);
    const browser = await chromium.launch({
      executablePath,
      timeout: limitMs,
      args: [
        '--no-sandbox',
        // Containers have little shared memory.
        '--disable-dev-shm-usage',
        ...(webgpu
          ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader']
          : ['--disable-features=WebGPU', '--disable-gpu']),
        // No requests except to the host of the page.
        '--no-first-run',
        '--disable-quic',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    return new TestBrowser(browser);
  }

  async page({ url, width = 1280, height = 900, dark = false }: PageOptions): Promise<WatchedPage> {
    const context = await this.#browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    });
    // A locator that matches nothing fails with its name before the test times out.
    context.setDefaultTimeout(limitMs);
    const page = await context.newPage();
    const { origin } = new URL(url);
    let faults: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
    page.on('request', (request) => {
      const requestUrl = request.url();
      if (!/^(?:data|blob):/.test(requestUrl) && new URL(requestUrl).origin !== origin)
        faults.push(`request: ${requestUrl}`);
    });
    const idle = watchRequests(page);
    await page.goto(url);
    return {
      page,
      idle,
      faults() {
        const taken = faults;
        faults = [];
        return taken;
      },
      close: () => context.close(),
    };
  }

  close(): Promise<void> {
    return this.#browser.close();
  }
}
