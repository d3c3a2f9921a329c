// Browsers allow no Worker on pages opened as files, and the search runs in one. There, a Worker is an iframe
// that runs the same script and exchanges the same messages. The theme's own stand-in would be loaded from the web.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        "<script>window.postMessage = (data) => parent.dispatchEvent(new CustomEvent('worker-said', { detail: data }));" +
        "window.importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((loaded) => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = loaded;" +
        "document.head.append(script); })));<" + "/script>" +
        `<script src="${url}"><` + "/script>";
      addEventListener("worker-said", ({ detail }) => {
        const message = new MessageEvent("message", { data: detail });
        this.onmessage?.(message);
        this.dispatchEvent(message);
      });
      this.frame.onload = () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      const attach = () => document.body.append(this.frame);
      document.body ? attach() : addEventListener("DOMContentLoaded", attach);
    }
    postMessage(data) {
      if (!this.ready) return void this.waiting.push(data);
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
