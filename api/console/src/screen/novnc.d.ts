declare module "@novnc/novnc" {
  interface Channel {
    binaryType: string;
    protocol: string;
    readyState: string;
    send(data: ArrayBuffer | Uint8Array): void;
    close(): void;
  }

  /** The part of the client that is used here; `docs/API.md` of the package has the whole. */
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: Channel, options?: { shared?: boolean });
    viewOnly: boolean;
    scaleViewport: boolean;
    clipViewport: boolean;
    resizeSession: boolean;
    focusOnClick: boolean;
    /** Shows where the pointer is while the screen shows none of its own. */
    showDotCursor: boolean;
    background: string;
    qualityLevel: number;
    compressionLevel: number;
    disconnect(): void;
    focus(): void;
    blur(): void;
    clipboardPasteFrom(text: string): void;
    sendKey(keysym: number, code: string | null, down?: boolean): void;
  }
}
